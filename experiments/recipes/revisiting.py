"""Recipe of the "Revisiting" benchmark, and of the dissertation's later chapters.

Reference: Milbich's dissertation, sections 2.3.1 and 2.3.2: ResNet-50 with frozen batch normalisation, 128-D, Adam at a
constant 1e-5. Only the number of epochs ends a run; each epoch has one evaluation. Weight decay is coupled, as in
PyTorch's Adam. Sections 3.3, 4.3 and 5.4: what they print instead. Chapter 3 prints no decay and no epochs, chapter 5
no decay, and 150 epochs for CUB alone, as the benchmark. In-shop is not in the benchmark.
"""

from __future__ import annotations

from typing import Any

from experiments.recipes.dissertation import CHAPTER_3_IMAGES, STEPS_PER_EPOCH, chapter_of
from experiments.recipes.draft import Draft
from experiments.recipes.published_code import CONVENTIONAL_LOSSES
from experiments.recipes.thesis import most_classes, thesis

_LOSSES: dict[str, dict[str, Any]] = {
    **CONVENTIONAL_LOSSES,
    "pnca": {"temperature": 1 / 18, "proxy_multiplier": 50.0},  # |3x - 3p|^2 = 18 - 18 <x, p>
    "softtriple": {
        "centers_per_class": 2,
        "softtriple_scale": 8.0,
        "softtriple_gamma": 0.1,
        "softtriple_tau": 0.2,
        "softtriple_margin": 0.01,
        "proxy_multiplier": 1.0,
    },
}


def revisiting(draft: Draft) -> None:
    """Set the values of the benchmark, or of the chapter with the loss's row.

    Embedded data keep their network, its learning rate and the length of training; glyphs take half a batch.
    """
    thesis(draft)
    source, kind, dataset = '"Revisiting" benchmark', draft.traits.kind, draft.dataset
    draft.set(source, embedding_dim=128, normalization="unit", beta_2=0.999, weight_decay=4e-4)
    draft.set(source, samples_per_class=2, plateau_patience=0, warm_up_epochs=0, warm_up_steps=0)  # "SPC-2"
    draft.set(source, **_LOSSES.get(draft.loss.base, {}))
    if kind == "tokens":
        draft.set(source, embedding_dim=2, normalization="none")
    if kind in ("characters", "collages"):
        draft.set(source, classes_per_batch=28)
    steps, epochs = STEPS_PER_EPOCH.get(dataset, 52), 100 if draft.traits.large else 150
    if draft.traits.photographs:
        draft.set(source, backbone="resnet50", weights="imagenet", frozen_batch_norm=True, image_size=224)
        draft.set(source, crop="thesis", classes_per_batch=56, learning_rate=1e-5)  # a batch of 112
        draft.set(source, steps_per_evaluation=steps, max_steps=epochs * steps, patience=epochs + 1)
    chapter = chapter_of(draft.loss, draft.chosen("embedding_dim"))
    source = f"Milbich's dissertation, chapter {chapter}"
    if chapter == 3:
        batch = draft.values["classes_per_batch"] * draft.values["samples_per_class"]
        images = CHAPTER_3_IMAGES.get(draft.loss.base, 4)
        classes = max(2, min(batch // images, most_classes(draft, batch)))
        draft.set(source, samples_per_class=images, classes_per_batch=classes)
    if chapter > 2 and draft.traits.photographs:
        draft.set(source, crop="reduced")
    if chapter == 4 and draft.traits.photographs:
        epochs = 150 if draft.traits.large else 200
        draft.set(source, weight_decay=5e-4, max_steps=epochs * steps, patience=epochs + 1)
