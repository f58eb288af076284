"""Cross-dimensional weighting: loud positions and rare channels count more."""

from __future__ import annotations

from typing import Literal

import tensorflow as tf
from tensorflow import keras

from common.ops.shapes import InputShape
from common.parameters import PoolingArguments, Positive, Unpack, checked
from common.pooling.weighted_pooling import WeightedPooling, shares, weighted_mean


@keras.utils.register_keras_serializable(package="deep_metric_learning")
class CrossDimensionalPooling(WeightedPooling):
    """Average weighted by activation over positions and by sparsity over channels (CroW), without weights.

        pooled_c = I_c (1/n) sum_j S_j r_jc,         r = max(f, 0)
        S_j = sqrt( s_j / ||s|| ),   s_j = sum_c r_jc
        I_c = log( (C epsilon + sum_k Q_k) / (epsilon + Q_c) ),   Q_c = share of positions with r_jc > 0,   C channels

    Exact gradient; the position weights have none where all channels are zero (the square root alone would give NaN),
    and an all-zero map pools to zero.

    Reference: thesis section 5.3.5 (iv, CroW); Y. Kalantidis, C. Mellina, S. Osindero, "Cross-dimensional weighting for
    aggregated deep convolutional features", 2016 (a = b = 2). The paper sums where we average. The published code takes
    for Q the average of `sigmoid(r)`, at least one half, so that channels differ by log 2 at most, but Q has a gradient
    (`channel_rate="sigmoid"`); it takes 1e-16 for epsilon and has no guard at zero.

    Head: the thesis pools first and then projects (`project_first=False`).

    Args:
        channel_rate: "nonzero" (the paper) or "sigmoid" (the published code).
        epsilon: keeps the logarithm finite for channels that are zero everywhere, > 0.

    Input shape:
        `[batch, height, width, channels]` or `[batch, positions, channels]`; see `FeaturePooling`.

    Output shape:
        `[batch, channels]`, float32 (or float64).

    Raises:
        InvalidInput: `channel_rate` is unknown or `epsilon` is not positive.
    """

    @checked
    def __init__(
        self,
        channel_rate: Literal["nonzero", "sigmoid"] = "nonzero",
        *,
        epsilon: Positive = 1e-6,
        **kwargs: Unpack[PoolingArguments],
    ) -> None:
        super().__init__(**kwargs)
        self.channel_rate = channel_rate
        self.epsilon = float(epsilon)

    def call(self, features: tf.Tensor, mask: tf.Tensor | None = None, training: bool | None = None) -> tf.Tensor:
        features, mask = self.full_precision_positions(features, mask)
        features = tf.nn.relu(features)
        return self._channel_weights(features, mask) * weighted_mean(_position_weights(features), features, mask)

    def spatial_weights(self, features: tf.Tensor, mask: tf.Tensor | None = None) -> tf.Tensor:
        """Return each position's share `S_j / sum_l S_l`, `[batch, positions]`; see `WeightedPooling`."""
        features, mask = self.full_precision_positions(features, mask)
        return shares(_position_weights(tf.nn.relu(features)), mask)

    def _channel_weights(self, features: tf.Tensor, mask: tf.Tensor | None) -> tf.Tensor:
        """Return I `[batch, channels]` of rectified features."""
        rates = tf.cast(features > 0.0, features.dtype) if self.channel_rate == "nonzero" else tf.sigmoid(features)
        rates = weighted_mean(tf.ones_like(features[..., 0]), rates, mask)
        total = tf.reduce_sum(rates, axis=1, keepdims=True)
        return tf.math.log(features.shape[-1] * self.epsilon + total) - tf.math.log(self.epsilon + rates)

    def compute_output_shape(self, input_shape: InputShape) -> tuple[int | None, ...]:
        return (input_shape[0], self.num_channels(input_shape))

    def get_config(self) -> dict:
        return {**super().get_config(), "channel_rate": self.channel_rate, "epsilon": self.epsilon}


def _position_weights(features: tf.Tensor) -> tf.Tensor:
    """Return S `[batch, positions]` of rectified features; zero at padding."""
    sums = tf.reduce_sum(features, axis=-1)
    largest = tf.stop_gradient(tf.reduce_max(sums, axis=1, keepdims=True))  # S does not depend on the scale of s
    ratios = tf.math.divide_no_nan(sums, largest)
    active = ratios > 0.0
    squared = tf.reduce_sum(tf.square(ratios), axis=1, keepdims=True)  # about 1 or more, or 0 where nothing is active
    norms = tf.sqrt(tf.where(squared > 0.0, squared, 1.0))
    roots = tf.sqrt(tf.where(active, ratios, 1.0) / norms)
    return tf.where(active, roots, 0.0)
