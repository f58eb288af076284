"""Attention of a trained model, of each prototype too, and its pictures."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

import gsp_dml
from experiments.reports.plots import picture
from experiments.runs.pooling_weights import pooling_weights_of
from experiments.runs.trained_model import TrainedModel
from gsp_dml.attention_maps import as_rgb, attention_overlay


def attention_of(trained: TrainedModel, num_images: int, num_prototypes: int) -> list[ImageAttention]:
    """Compute attention on images of different classes, and by their most used prototypes."""
    import tensorflow as tf

    test = trained.dataset.test
    _, first_of_class = np.unique(test.labels, return_index=True)
    chosen = first_of_class[np.unique(np.linspace(0, len(first_of_class) - 1, num_images).astype(int))]
    examples = test.subset(chosen)
    images = np.concatenate([np.asarray(batch) for batch in trained.inputs(examples)])
    batches = tf.data.Dataset.from_tensor_slices(images).batch(16)
    pooled = pooling_weights_of(trained.model, batches)
    names = trained.dataset.class_names
    plans, used = _plans(trained.model, images, num_prototypes)
    return [
        ImageAttention(
            image=images[index],
            name=names[label] if len(names) else f"class {label}",
            total=pooled.weights[index].reshape(pooled.map_shape),
            prototypes={f"prototype {i}": plans[index, :, i].reshape(pooled.map_shape) for i in used},
        )
        for index, label in enumerate(examples.labels)
    ]


def _plans(model, images: np.ndarray, num_prototypes: int) -> tuple[np.ndarray, list[int]]:
    """Return transport plans `[images, positions, prototypes]` (sum one) and most used prototypes."""
    from gsp_dml.perplexity_callback import pooled_features

    pooling = model.head.pooling
    if not isinstance(pooling, gsp_dml.GeneralizedSumPooling) or not bool(pooling.has_prototypes()):
        return np.zeros((len(images), 1, 0)), []
    features, _ = pooled_features(model, images)
    pooling.return_attention = True
    plan = np.asarray(pooling.transport(features).plan)
    plan = plan / plan.sum((1, 2), keepdims=True)
    used = np.argsort(-plan.sum((0, 1)), kind="stable")[:num_prototypes]
    return plan, used.tolist()


@dataclass(frozen=True)
class ImageAttention:
    """An image with its pooling weights."""

    image: np.ndarray  # `[height, width, channels]`, 0..255, grey or RGB
    name: str  # of its class
    total: np.ndarray  # pooling weights `[rows, columns]`, with sum one
    # the part of each drawn prototype, by name, `[rows, columns]`; over all prototypes they sum to one
    prototypes: Mapping[str, np.ndarray] = field(default_factory=dict)


def attention_panels(images: Sequence[ImageAttention], path: str | os.PathLike, *, title: str = "") -> None:
    """Draw a row per image, with its pooling weights, as a PNG.

    A row shows the image, its total weight and one panel per prototype, the same ones in all rows. Colours of the total
    are scaled to its own range in each row. Above it stands that range as a multiple of the uniform weight: a narrow
    range means that the pooling hardly selects. Prototypes of a row share one scale.
    """
    columns = 2 + len(images[0].prototypes)
    size = 1.55 * columns, 1.72 * len(images) + 0.4
    with picture(path, *size, rows=len(images), columns=columns, dpi=130) as (figure, axes):
        for row, attention in zip(axes.reshape(-1, columns), images):
            name = attention.name if len(attention.name) <= 30 else f"{attention.name[:27]}..."
            titles = name, "weight {:.2f}-{:.2f} x", "{}: {:.0f} %"
            for panel, (caption, pixels) in zip(row, overlays(attention, *titles)):
                panel.imshow(pixels)
                panel.set_title(caption, fontsize=6)
        for panel in axes:
            panel.set_axis_off()
        figure.suptitle(title, fontsize=8)


def overlays(attention: ImageAttention, name: str, of_total: str, of_prototype: str) -> list[tuple[str, np.ndarray]]:
    """Return captions and pixels: the image, its total weight, and each prototype.

    Pixels are `[height, width, 3]`, 0..1.

    Args:
        of_total: template with two places, the range of the total as multiples of the uniform weight.
        of_prototype: template with two places, the prototype's name and its share of the weight in percent.
    """
    image, relative = as_rgb(attention.image), attention.total * attention.total.size
    low, high = float(relative.min()), float(relative.max())
    largest = max((part.max() for part in attention.prototypes.values()), default=1.0)
    parts = [
        (of_prototype.format(name, 100 * part.sum()), attention_overlay(image, part, 0.0, largest))
        for name, part in attention.prototypes.items()
    ]
    return [(name, image), (of_total.format(low, high), attention_overlay(image, relative, low, high)), *parts]
