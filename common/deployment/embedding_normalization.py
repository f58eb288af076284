"""Normalisation of embeddings: the last layer of a deployed model."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import tensorflow as tf
from tensorflow import keras

from common.errors import check_choice
from common.ops.normalization import NORMALIZATIONS, normalize, normalize_groups
from common.ops.shapes import InputShape


@keras.utils.register_keras_serializable(package="deep_metric_learning")
class EmbeddingNormalization(keras.layers.Layer):
    """`normalize` of embeddings as a layer: `unit`, `clip` or `none`.

    Args:
        mode: `unit` (v / |v|), `clip` (v / max(1, |v|)) or `none`.
        sizes: components of features that stand side by side, each brought to length on its own; None: one feature.
        **kwargs: `name`, `dtype`.

    Input shape:
        `[batch, dim]`

    Output shape:
        `[batch, dim]`, at least float32. Exact gradient.
    """

    def __init__(self, mode: str = "unit", sizes: Sequence[int] | None = None, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.mode = check_choice("mode", mode, NORMALIZATIONS)
        self.sizes = None if sizes is None else tuple(sizes)

    def call(self, embeddings: tf.Tensor) -> tf.Tensor:  # noqa: D102
        if self.sizes is not None:
            return normalize_groups(embeddings, self.mode, self.sizes)
        return normalize(embeddings, self.mode)

    def compute_output_shape(self, input_shape: InputShape) -> InputShape:  # noqa: D102
        return input_shape

    def get_config(self) -> dict:  # noqa: D102
        sizes = {} if self.sizes is None else {"sizes": list(self.sizes)}
        return {**super().get_config(), "mode": self.mode, **sizes}
