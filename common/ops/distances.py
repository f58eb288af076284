"""Distances and inner products of all pairs of two sets, by one matrix product."""

from __future__ import annotations

import numpy as np
import tensorflow as tf

from common.ops.precision import at_least_float32

# ‖x‖² + ‖y‖² - 2xᵀy of two equal vectors is not zero but a few units of rounding of its largest term. Squared distances
# below this many units carry no information and count as zero, so that coincident vectors have distance zero.
ROUNDING_UNITS = 4.0


def pairwise_inner_products(x: tf.Tensor, y: tf.Tensor) -> tf.Tensor:
    """Return the inner products `x_iᵀ y_j` of all pairs.

    Args:
        x: `[..., a, dim]`.
        y: `[..., b, dim]`, the same leading dimensions and type.

    Returns:
        `[..., a, b]`, at least float32. Exact gradient.
    """
    return tf.matmul(at_least_float32(x), at_least_float32(y), transpose_b=True)


def pairwise_squared_distances(x: tf.Tensor, y: tf.Tensor) -> tf.Tensor:
    """Return squared Euclidean distances `‖x_i - y_j‖²` of all pairs.

    They are computed as `‖x_i‖² + ‖y_j‖² - 2 x_iᵀ y_j`. Values below the rounding error of that sum (a distance below
    1e-3 for unit vectors in float32) become exactly zero. Vectors that are not finite, or so long that their squares
    are not (9e18 in float32), have distance NaN from all.

    Args:
        x: `[..., a, dim]`.
        y: `[..., b, dim]`, the same leading dimensions and type.

    Returns:
        `[..., a, b]`, at least float32, never negative. Exact gradient `2 (x_i - y_j)`, zero where the value is zero.
    """
    x, y = at_least_float32(x), at_least_float32(y)
    squared_norms = _squared_norms(x)[..., :, None] + _squared_norms(y)[..., None, :]
    squared = squared_norms - 2.0 * tf.matmul(x, y, transpose_b=True)  # [..., a, b]
    rounding = ROUNDING_UNITS * np.finfo(x.dtype.as_numpy_dtype).eps * squared_norms
    return tf.where(squared <= rounding, tf.zeros_like(squared), squared)


def _squared_norms(x: tf.Tensor) -> tf.Tensor:
    """Return the squared norms `[..., n]`; NaN if twice the norm would overflow."""
    squared = tf.reduce_sum(tf.square(x), axis=-1)
    return tf.where(squared < squared.dtype.max / 4, squared, tf.constant(np.nan, squared.dtype))


def pairwise_distances(x: tf.Tensor, y: tf.Tensor) -> tf.Tensor:
    """Return the Euclidean distances `‖x_i - y_j‖` of all pairs.

    Args:
        x: `[..., a, dim]`.
        y: `[..., b, dim]`, the same leading dimensions and type.

    Returns:
        `[..., a, b]`, at least float32. Exact gradient `(x_i - y_j) / ‖x_i - y_j‖`; zero, never NaN, at distance zero.
    """
    squared = pairwise_squared_distances(x, y)
    apart = squared != 0.0  # also where it is NaN
    # The square root is kept away from zero, where its derivative is infinite, and infinity times zero is NaN.
    roots = tf.sqrt(tf.where(apart, squared, tf.ones_like(squared)))
    return tf.where(apart, roots, tf.zeros_like(roots))
