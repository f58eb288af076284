"""The average of the largest and of the smallest values of a channel."""

from __future__ import annotations

import tensorflow as tf
from tensorflow import keras

from common.errors import invalid
from common.ops.precision import in_full_precision
from common.ops.shapes import InputShape
from common.parameters import Count, CountOrZero, PoolingArguments, Unpack, checked
from common.pooling.feature_pooling import FeaturePooling
from common.pooling.position_counts import num_positions, static_num_positions


@keras.utils.register_keras_serializable(package="deep_metric_learning")
class WeldonPooling(FeaturePooling):
    """Mean of a channel's k largest values plus mean of its k smallest (WELDON).

        pooled_c = (1/k+) sum of the k+ largest f_jc  +  (1/k-) sum of the k- smallest f_jc

    No weights to train. The gradient goes to the selected positions alone; among equal values to the first ones.

    Reference: thesis section 5.3.5 (xiii, WELDON); T. Durand, N. Thome, M. Cord, "WELDON: weakly supervised learning of
    deep convolutional neural networks", 2016. The published code sums (unit-normalised embeddings do not see that
    factor 3) and, where the k-th value is tied, adds all that equal it.

    Head: project first (`project_first=True`), as the paper pools the maps of its classes; the smallest values of
    features behind a ReLU would mostly be zeros.

    Args:
        num_largest: k+, at least 1.
        num_smallest: k-, at least 0; 0 leaves the second mean out.

    Input shape:
        `[batch, height, width, channels]` or `[batch, positions, channels]` with at least max(k+, k-) positions; see
        `FeaturePooling`. A mask may leave fewer: then the means are over those.

    Output shape:
        `[batch, channels]`, float32 (or float64).

    Raises:
        InvalidInput: an argument is out of range, or there are fewer positions.
    """

    @checked
    def __init__(
        self, num_largest: Count = 3, num_smallest: CountOrZero = 3, **kwargs: Unpack[PoolingArguments]
    ) -> None:
        super().__init__(**in_full_precision(kwargs))
        self.num_largest = int(num_largest)
        self.num_smallest = int(num_smallest)

    def build(self, input_shape: InputShape) -> None:
        self.num_channels(input_shape)
        positions = static_num_positions(input_shape, self.data_format)
        needed = max(self.num_largest, self.num_smallest)
        if positions is not None and positions < needed:
            expected = f"at least {needed} positions (num_largest={self.num_largest}, num_smallest={self.num_smallest})"
            raise invalid("input shape", received=tuple(input_shape), expected=expected)
        super().build(input_shape)

    def call(self, features: tf.Tensor, mask: tf.Tensor | None = None, training: bool | None = None) -> tf.Tensor:
        features, mask = self.positions_of(features, mask)
        values = tf.transpose(tf.cast(features, self.compute_dtype), [0, 2, 1])  # [batch, channels, positions]
        count = num_positions(tf.transpose(values, [0, 2, 1]), mask)
        pooled = _mean_of_largest(values, mask, count, self.num_largest)
        if self.num_smallest == 0:
            return pooled
        return pooled - _mean_of_largest(-values, mask, count, self.num_smallest)

    def compute_output_shape(self, input_shape: InputShape) -> tuple[int | None, ...]:
        return (input_shape[0], self.num_channels(input_shape))

    def get_config(self) -> dict:
        return {**super().get_config(), "num_largest": self.num_largest, "num_smallest": self.num_smallest}


def _mean_of_largest(values: tf.Tensor, mask: tf.Tensor | None, count: tf.Tensor, num_largest: int) -> tf.Tensor:
    """Map `[batch, channels, positions]` to `[batch, channels]`; `count` `[batch, 1]` positions are valid."""
    if mask is None:
        return tf.reduce_mean(tf.math.top_k(values, num_largest).values, axis=-1)
    lowest = values.dtype.min
    largest = tf.math.top_k(tf.where(mask[:, None, :], values, lowest), num_largest).values
    total = tf.reduce_sum(tf.where(largest > lowest, largest, 0.0), axis=-1)
    return tf.math.divide_no_nan(total, tf.minimum(count, num_largest))
