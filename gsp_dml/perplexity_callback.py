"""Metrics of selection by GSP, recorded with the retrieval metrics of each evaluation."""

from __future__ import annotations

from typing import Protocol

import numpy as np
import tensorflow as tf
from tensorflow import keras

from common.records import ResumableCallback
from common.training import EmbeddingHead, EmbeddingModel
from gsp_dml.partial_transport import weight_perplexity


class BackboneAndHead(Protocol):
    """An `EmbeddingModel`, or any object with its two parts."""

    backbone: keras.Model
    head: EmbeddingHead


class WeightPerplexity(ResumableCallback):
    """Adds the perplexities of pooling weights and attributes to each evaluation's logs.

        position_perplexity  = mean over images of exp(-sum_j p_j log p_j) / n, in (0, 1]
        prototype_perplexity = mean over images of exp(-sum_i z_i log z_i) / m, in (0, 1]

    The first is 1 for average pooling and goes to about the transport ratio as the layer selects; with proxy losses the
    thesis' smoothing of 0.5 leaves it above .99. The second is 1 when every image is spread evenly over all prototypes,
    and 1/m when it uses a single one. Before prototypes are chosen both are 1.

    Args:
        embedding_model: its head has a `GeneralizedSumPooling` as `pooling`.
        batches: yields inputs of the backbone; a few hundred images are enough.
    """

    def __init__(self, embedding_model: EmbeddingModel, batches: tf.data.Dataset) -> None:
        super().__init__()
        self.embedding_model, self.batches = embedding_model, batches
        self._step = tf.function(self._perplexities, reduce_retracing=True, autograph=False)

    def on_epoch_end(self, epoch: int, logs: dict | None = None) -> None:
        if logs is not None:
            logs.update(self.measure())

    def measure(self) -> dict[str, float]:
        """Return both perplexities of the model's current weights."""
        steps = [self._step(inputs) for inputs in self.batches]
        positions, prototypes = (np.concatenate([np.asarray(step[part]) for step in steps]) for part in (0, 1))
        return {"position_perplexity": float(positions.mean()), "prototype_perplexity": float(prototypes.mean())}

    def _perplexities(self, inputs: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        pooling = self.embedding_model.head.pooling
        transport = pooling.transport(pooled_features(self.embedding_model, inputs)[0])
        num_positions = tf.cast(tf.shape(transport.weights)[1], transport.weights.dtype)
        share = weight_perplexity(transport.weights) / num_positions
        used = weight_perplexity(transport.attributes) / pooling.num_prototypes
        return share, tf.where(pooling.has_prototypes(), used, 1.0)


def pooled_features(model: BackboneAndHead, inputs: tf.Tensor) -> tuple[tf.Tensor, tuple[int, ...]]:
    """Return the input of the model's pooling (projected, if `project_first`) in inference.

    Args:
        model: an embedding model of feature maps or tokens, or its two parts.
        inputs: images or tokens, as its backbone takes them.

    Returns:
        features `[batch, positions, channels]` and the shape of their map: (rows, columns) or (positions,).
    """
    features = model.backbone(inputs, training=False)
    map_shape = tuple(features.shape[1:-1])
    if model.head.projection is not None and model.head.project_first:
        features = model.head.projection(features)
    features, _ = model.head.pooling.positions_of(tf.cast(features, tf.float32))
    return features, map_shape
