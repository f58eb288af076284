"""Attention by the length of a feature."""

from __future__ import annotations

import tensorflow as tf
from tensorflow import keras

from common.ops.shapes import InputShape
from common.parameters import PoolingArguments, Unpack
from common.pooling.neighborhoods import as_maps, as_positions, check_has_neighborhoods, check_window
from common.pooling.weighted_pooling import WeightedPooling, shares, weighted_mean


@keras.utils.register_keras_serializable(package="deep_metric_learning")
class NormAttentionPooling(WeightedPooling):
    """Smoothed features weighted by the raw features' norm (T-SMK; NAP in its code).

        pooled = (1/n) sum_j ||f_j|| g_j,    g_j = average of f over the window around j

    No weights to train. Averages at the border cover the map alone. Exact gradient; that of a norm is 0 at
    a zero feature, where the norm alone would give NaN.

    Reference: thesis section 5.3.5 (xi, T-SMK); G. Tolias, T. Jenicek, O. Chum, "Learning and aggregating deep local
    descriptors for instance-level recognition", 2020 (the global descriptor that HOW is trained with: attention,
    smoothing and whitening; its match kernel at test time is no part of the thesis). The published code stops the
    gradient of the norm (`stop_attention_gradient=True`) and projects with a bias before it weights; projecting after
    the pooling is the same up to that bias.

    Head: the thesis takes the norm of the backbone's features, so pool first and then project
    (`project_first=False`).

    Args:
        window: side of the smoothing window in positions, odd; 1 for none (and for token sequences).
        stop_attention_gradient: treat the norms as constants in the backward pass.

    Input shape:
        `[batch, height, width, channels]`, or `[batch, positions, channels]` with `window=1`.

    Output shape:
        `[batch, channels]`, float32 (or float64).

    Raises:
        InvalidInput: `window` is not odd, or larger than 1 for token sequences.
    """

    def __init__(
        self, window: int = 3, *, stop_attention_gradient: bool = False, **kwargs: Unpack[PoolingArguments]
    ) -> None:
        super().__init__(**kwargs)
        self.window = check_window("window", window)
        self.stop_attention_gradient = bool(stop_attention_gradient)

    def build(self, input_shape: InputShape) -> None:
        check_has_neighborhoods(input_shape, "window", self.window)
        super().build(input_shape)

    def call(self, features: tf.Tensor, mask: tf.Tensor | None = None, training: bool | None = None) -> tf.Tensor:
        positions, mask = self.full_precision_positions(features, mask)
        norms = _norms(positions)
        if self.stop_attention_gradient:
            norms = tf.stop_gradient(norms)
        return weighted_mean(norms, self._smoothed(positions, features, mask), mask)

    def spatial_weights(self, features: tf.Tensor, mask: tf.Tensor | None = None) -> tf.Tensor:
        """Return each position's share `||f_j|| / sum_l ||f_l||`, `[batch, positions]`; see `WeightedPooling`."""
        features, mask = self.full_precision_positions(features, mask)
        return shares(_norms(features), mask)

    def _smoothed(self, positions: tf.Tensor, features: tf.Tensor, mask: tf.Tensor | None) -> tf.Tensor:
        """Return the smoothed features `[batch, positions, channels]`; padding does not count."""
        if self.window == 1:
            return positions
        smoothed = self._window_means(as_maps(positions, features, self.data_format))
        if mask is None:
            return smoothed
        valid = as_maps(tf.cast(mask, positions.dtype)[..., None], features, self.data_format)
        return tf.math.divide_no_nan(smoothed, self._window_means(valid))

    def _window_means(self, maps: tf.Tensor) -> tf.Tensor:
        return as_positions(tf.nn.avg_pool2d(maps, self.window, strides=1, padding="SAME"))

    def compute_output_shape(self, input_shape: InputShape) -> tuple[int | None, ...]:
        return (input_shape[0], self.num_channels(input_shape))

    def get_config(self) -> dict:
        return {
            **super().get_config(),
            "window": self.window,
            "stop_attention_gradient": self.stop_attention_gradient,
        }


def _norms(features: tf.Tensor) -> tf.Tensor:
    """Return the norms `[batch, positions]` of `[batch, positions, channels]`."""
    squared = tf.reduce_sum(tf.square(features), axis=-1)
    nonzero = squared > 0.0
    return tf.where(nonzero, tf.sqrt(tf.where(nonzero, squared, 1.0)), 0.0)
