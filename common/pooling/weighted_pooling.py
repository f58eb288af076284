"""Poolings with one weight per position, which shows where they look."""

from __future__ import annotations

import abc
from collections.abc import Callable

import tensorflow as tf

from common.ops.precision import in_full_precision
from common.parameters import PoolingArguments, Unpack
from common.pooling.feature_pooling import FeaturePooling
from common.pooling.position_counts import num_positions


class WeightedPooling(FeaturePooling):
    """A pooling that reports each position's share of attention, in float32 (or float64).

    Input shape:
        `[batch, height, width, channels]` or `[batch, positions, channels]`; see `FeaturePooling`.

    Output shape:
        As the pooling says, in float32 (or float64).
    """

    def __init__(self, **kwargs: Unpack[PoolingArguments]) -> None:
        super().__init__(**in_full_precision(kwargs))

    @abc.abstractmethod
    def spatial_weights(self, features: tf.Tensor, mask: tf.Tensor | None = None) -> tf.Tensor:
        """Return each position's share in the pooled feature, in inference mode.

        Args:
            features: in one of the input shapes of this layer; as the layer itself takes them, so projected features
                if the projection comes before the pooling.
            mask: boolean, one value per position, or None.

        Returns:
            `[batch, positions]`, row by row of a feature map; at least 0, sums to 1.
        """

    def full_precision_positions(
        self, features: tf.Tensor, mask: tf.Tensor | None = None
    ) -> tuple[tf.Tensor, tf.Tensor | None]:
        """Return `positions_of` in this layer's computation type, with zeros at padding.

        Args:
            features: in one of the input shapes of this layer.
            mask: boolean, one value per position, or None.

        Returns:
            features `[batch, positions, channels]` and mask `[batch, positions]` (or None).
        """
        features = features if isinstance(features, tf.RaggedTensor) else tf.convert_to_tensor(features)
        features, mask = self.positions_of(features, mask)
        features = tf.cast(features, self.compute_dtype)
        return (features if mask is None else tf.where(mask[..., None], features, 0.0)), mask


def shares(weights: tf.Tensor, mask: tf.Tensor | None = None) -> tf.Tensor:
    """Divide weights by their sum, `w_j / sum_l w_l`; uniform if all are zero.

    Args:
        weights: `[batch, positions]`, at least 0.
        mask: boolean `[batch, positions]`, or None. Where it is False the share is 0.

    Returns:
        `[batch, positions]`; sums to 1, or to 0 if all are masked.
    """
    valid = tf.ones_like(weights) if mask is None else tf.cast(mask, weights.dtype)
    weights = weights * valid
    # The largest weight is divided out first, so that the sum of tiny weights does not vanish.
    weights = tf.math.divide_no_nan(weights, tf.reduce_max(weights, axis=1, keepdims=True))
    weights = tf.where(tf.reduce_any(weights > 0.0, axis=1, keepdims=True), weights, valid)
    return tf.math.divide_no_nan(weights, tf.reduce_sum(weights, axis=1, keepdims=True))


@tf.custom_gradient
def weighted_sum(
    weights: tf.Tensor, features: tf.Tensor
) -> tuple[tf.Tensor, Callable[[tf.Tensor], tuple[tf.Tensor, tf.Tensor]]]:
    """Return `sum_j w_j f_j` by products and sums, twice as fast as matrix products.

    Args:
        weights: `[batch, positions]`.
        features: `[batch, positions, channels]`.

    Returns:
        `[batch, channels]`.
    """

    def backward(upstream: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        upstream = tf.expand_dims(upstream, 1)
        return tf.reduce_sum(features * upstream, axis=2), tf.expand_dims(weights, 2) * upstream

    return tf.reduce_sum(tf.expand_dims(weights, 2) * features, axis=1), backward


def weighted_mean(weights: tf.Tensor, features: tf.Tensor, mask: tf.Tensor | None = None) -> tf.Tensor:
    """Return `(1/n) sum_j w_j f_j` over the n positions that `mask` allows.

    Args:
        weights: `[batch, positions]`.
        features: `[batch, positions, channels]`.
        mask: boolean `[batch, positions]`, or None.

    Returns:
        `[batch, channels]`; 0 if all are masked.
    """
    if mask is not None:
        weights = tf.where(mask, weights, 0.0)
    return tf.math.divide_no_nan(weighted_sum(weights, features), num_positions(features, mask))
