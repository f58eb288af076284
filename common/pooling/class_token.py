"""The class token of a transformer instead of a pooling of its patches."""

from __future__ import annotations

import tensorflow as tf
from tensorflow import keras

from common.ops.shapes import InputShape
from common.pooling.feature_pooling import FeaturePooling


@keras.utils.register_keras_serializable(package="deep_metric_learning")
class ClassTokenPooling(FeaturePooling):
    """The first position alone: `f_1`, or 0 if it is masked. Exact gradient.

    For the tokens of a transformer, whose first one is the class token, with or without the patches behind it.

    Reference: Dosovitskiy et al., An Image is Worth 16x16 Words (ICLR 2021), equation 4.

    Input shape:
        `[batch, positions, channels]`, or `[batch, height, width, channels]`; see `FeaturePooling`.

    Output shape:
        `[batch, channels]`.
    """

    def call(self, features: tf.Tensor, mask: tf.Tensor | None = None, training: bool | None = None) -> tf.Tensor:
        features, mask = self.positions_of(features, mask)
        return features[:, 0] if mask is None else tf.where(mask[:, :1], features[:, 0], 0)

    def compute_output_shape(self, input_shape: InputShape) -> tuple[int | None, ...]:
        return (input_shape[0], self.num_channels(input_shape))
