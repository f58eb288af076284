"""Attention of a trained model: as a whole and prototype by prototype."""

from __future__ import annotations

import numpy as np

import gsp_dml
from experiments.reports.attention import ImageAttention
from experiments.runs.pooling_weights import image_batches, pooling_weights_of
from experiments.runs.trained_model import TrainedModel


def attention_of(trained: TrainedModel, num_images: int, num_prototypes: int) -> list[ImageAttention]:
    """Compute attention on images of different classes, and by their most used prototypes."""
    import tensorflow as tf

    test = trained.dataset.test
    _, first_of_class = np.unique(test.labels, return_index=True)
    chosen = first_of_class[np.unique(np.linspace(0, len(first_of_class) - 1, num_images).astype(int))]
    examples = test.subset(chosen)
    images = np.concatenate([np.asarray(batch) for batch in image_batches(examples, trained.config, trained.dataset)])
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
