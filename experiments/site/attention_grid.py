"""Attention of a trained pooling, image by image and prototype by prototype."""

from __future__ import annotations

from common.errors import InvalidInput
from experiments.protocols.attention import attention_of
from experiments.reports import UnitRun
from experiments.reports.attention import as_rgb, attention_overlay
from experiments.runs.pooling_weights import has_weights
from experiments.runs.trained_model import load_trained_model, run_configuration
from experiments.site.drawings import Drawings
from experiments.site.example_images import DataFolder

UNIFORM = "Average pooling looks everywhere alike, so there is nothing to draw."


def attention_record(unit: UnitRun, data: DataFolder, drawings: Drawings, num_images: int, num_prototypes: int) -> dict:
    """Record attention over test images, in total and by most used prototypes.

    Args:
        unit: a finished run.
        data: gives its data set.
        drawings: where images go.
        num_images, num_prototypes: how many are drawn.
    """
    config, _ = run_configuration(unit.path)
    if config.pooling == "gap":
        return {"lines": [], "reason": UNIFORM}
    if config.backbone == "token_embedding":
        return {"lines": [], "reason": "Bags of tokens have no picture to lay attention over."}
    try:
        dataset = data.dataset_of(unit, config)
        trained = load_trained_model(unit.path, dataset=dataset, cache_dir=data.cache_dir)
    except InvalidInput as error:
        return {"lines": [], "reason": str(error), "is_incomplete": True}
    if not has_weights(trained.model.head.pooling):
        return {"lines": [], "reason": f"The pooling {config.pooling} gives positions no weights."}
    lines = []
    for attention in attention_of(trained, num_images, num_prototypes):
        image, relative = as_rgb(attention.image), attention.total * attention.total.size
        low, high = float(relative.min()), float(relative.max())
        largest = max((part.max() for part in attention.prototypes.values()), default=1.0)
        panels = [
            ("the image", image),
            (f"weight {low:.2f} to {high:.2f} times the average's", attention_overlay(image, relative, low, high)),
        ]
        panels += [
            (f"{name}: {100 * part.sum():.0f} % of the weight", attention_overlay(image, part, 0.0, largest))
            for name, part in attention.prototypes.items()
        ]
        drawn = [{"caption": caption, "image": drawings.image(255 * pixels)} for caption, pixels in panels]
        lines.append({"name": attention.name, "panels": drawn})
    return {"lines": lines, "reason": ""}
