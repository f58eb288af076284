"""Hyperbolic space of constant curvature: points as tangent vectors, and distances.

A tangent vector v at the origin stands for the point of the Poincaré ball `tanh(√c ‖v‖) v / (√c ‖v‖)`: the exponential
map for curvature -c. Distances from tangent vectors need no point near the ball's edge, where 1 - c ‖x‖² cancels.
"""

from __future__ import annotations

import math

import tensorflow as tf

from common.errors import check_positive
from common.ops.distances import pairwise_squared_distances
from common.ops.normalization import normalize
from common.ops.precision import at_least_float32


def exponential_map(tangents: tf.Tensor, curvature: float) -> tf.Tensor:
    """Map tangent vectors at the origin into the Poincaré ball.

    Reference: Ganea, Bécigneul, Hofmann: Hyperbolic Neural Networks, NeurIPS 2018.

    Args:
        tangents: v `[..., dim]`.
        curvature: c of the curvature -c, greater than 0; the ball has the radius 1/√c.

    Returns:
        `tanh(√c ‖v‖) v / (√c ‖v‖)`, `[..., dim]`, at least float32. Exact gradient.
    """
    lengths = math.sqrt(check_positive("curvature", curvature)) * _polar(tangents)[1]
    apart = lengths != 0.0  # also where it is NaN
    safe = tf.where(apart, lengths, tf.ones_like(lengths))
    return at_least_float32(tangents) * tf.where(apart, tf.tanh(safe) / safe, tf.ones_like(safe))


def pairwise_hyperbolic_distances(x: tf.Tensor, y: tf.Tensor, curvature: float) -> tf.Tensor:
    """Return the hyperbolic distances of all pairs of points.

    With a = √c ‖x‖, b = √c ‖y‖ and the angle θ between x and y, the hyperbolic law of cosines gives

        sinh²(√c d / 2) = sinh²(a - b) + sinh(2a) sinh(2b) (1 - cos θ) / 2.

    All terms are positive, so float32 loses nothing near the ball's edge. d is the distance
    `(2/√c) artanh(√c ‖(-p) ⊕ q‖)` of the points p and q that `exponential_map` gives.

    Reference: Ermolov, Mirvakhabova, Khrulkov, Sebe, Oseledets: Hyperbolic Vision Transformers, CVPR 2022 (the
    distance).

    Args:
        x: tangent vectors `[..., a, dim]`.
        y: tangent vectors `[..., b, dim]`, the same leading dimensions and type.
        curvature: c of the curvature -c, greater than 0. `2 √c (‖x‖ + ‖y‖)` must stay below 80 in float32.

    Returns:
        `[..., a, b]`, at least float32, never negative. Exact gradient; zero, never NaN, at distance zero and for a
        vector that is zero.
    """
    root = math.sqrt(check_positive("curvature", curvature))
    (x_directions, x_lengths), (y_directions, y_lengths) = _polar(x), _polar(y)
    a, b = root * x_lengths, root * tf.linalg.matrix_transpose(y_lengths)  # [..., a, 1], [..., 1, b]
    angles = pairwise_squared_distances(x_directions, y_directions)  # 2 (1 - cos θ)
    squares = tf.square(tf.sinh(a - b)) + tf.sinh(2.0 * a) * tf.sinh(2.0 * b) * angles / 4.0
    apart = squares != 0.0  # also where it is NaN
    roots = tf.sqrt(tf.where(apart, squares, tf.ones_like(squares)))
    return (2.0 / root) * tf.asinh(tf.where(apart, roots, tf.zeros_like(roots)))


def _polar(vectors: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
    """Return unit directions `[..., dim]` and lengths `[..., 1]`; of zero both are zero."""
    vectors = at_least_float32(vectors)
    directions = normalize(vectors, "unit")
    return directions, tf.reduce_sum(vectors * tf.stop_gradient(directions), axis=-1, keepdims=True)
