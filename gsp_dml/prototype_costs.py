"""The costs of the transport problem: distances from local features to prototypes."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import tensorflow as tf

from common.ops.normalization import SPHERE
from common.ops.precision import at_least_float32

SAFE_SQUARED_DISTANCE = 1e-2  # above it, |f|^2 + |w|^2 - 2 f.w has at least five correct digits in float32
SAFE_SCALE = 1e-15  # a vector that is scaled by less to reach the unit ball may have overflowed when it was squared


class CostState(NamedTuple):
    """Costs, and inputs of their gradient besides features and prototypes.

    Attributes:
        distances: the costs, `[rows, prototypes]`.
        row_scale, row_norm: the factor that clips each feature, and its squared norm after that, `[rows, 1]`.
        center_scale, center_norm: the same of the prototypes, `[prototypes, 1]`.
    """

    distances: tf.Tensor
    row_scale: tf.Tensor
    row_norm: tf.Tensor
    center_scale: tf.Tensor
    center_norm: tf.Tensor


def prototype_costs(features: tf.Tensor, prototypes: tf.Tensor, state: CostState | None = None) -> tf.Tensor:
    """Return distances between clipped vectors, not squared.

        c_ji = || clip(f_j) - clip(w_i) ||,     clip(v) = v / max(1, ||v||)

    Only the costs see clipped features; pooling averages the features themselves. One matrix product gives all costs,
    as |f|^2 + |w|^2 - 2 f.w; but in float32 that leaves 1e-3 of a true distance of 1e-3, and 0 of 1e-4. So when any
    feature is close to a prototype, all costs are computed again from the differences to the nearest prototypes, with
    r_j = f_j - w_k and k the nearest to j:

        c_ji^2 = |r_j|^2 + 2 r_j.(w_k - w_i) + |w_k - w_i|^2

    where no large numbers cancel: the error of a cost is about 1e-7 at any size. No temporary of size positions x
    prototypes x channels is made, and no double precision is needed.

    Reference: thesis section 5.2 and ICCV section 4 (the cost c_ij of P2).

    Gradient: closed form; 0 for a feature that equals a prototype (never NaN); only the tangential part for vectors on
    the unit sphere, to rounding (a squared norm from 1 - 4e-6 on, as of `normalize`), or outside of it. Features longer
    than 1.8e19, whose squares overflow, have none and give none to prototypes.

    Args:
        features: f, `[..., positions, channels]`; norms up to 1e37.
        prototypes: w, `[prototypes, channels]`.
        state: a precomputed `cost_state` of them; then only the gradient is computed.

    Returns:
        c, `[..., positions, prototypes]`, from 0 to 2; float64 if the features are, else float32.
    """
    features = at_least_float32(features)

    @tf.custom_gradient
    def distances_of(
        rows: tf.Tensor, centers: tf.Tensor
    ) -> tuple[tf.Tensor, Callable[[tf.Tensor], tuple[tf.Tensor, tf.Tensor]]]:
        found = _state_of_rows(rows, centers) if state is None else state
        return found.distances, lambda upstream: _gradients(rows, centers, found, upstream)

    costs = distances_of(_rows(features), tf.cast(prototypes, features.dtype))
    return tf.reshape(costs, tf.concat([tf.shape(features)[:-1], [prototypes.shape[0]]], 0))


def cost_state(features: tf.Tensor, prototypes: tf.Tensor) -> CostState:
    """Return `prototype_costs`, and tensors for their gradient, without a gradient."""
    features = at_least_float32(features)
    return _state_of_rows(_rows(features), tf.cast(prototypes, features.dtype))


def _rows(features: tf.Tensor) -> tf.Tensor:
    return tf.reshape(features, [-1, features.shape[-1]])


def _state_of_rows(rows: tf.Tensor, prototypes: tf.Tensor) -> CostState:
    """Return the state of rows `[rows, channels]` and prototypes `[prototypes, channels]`."""
    row_scale, row_norm = _scale_and_squared_norm(rows)
    center_scale, center_norm = _scale_and_squared_norm(prototypes)
    products = tf.matmul(rows, -2.0 * center_scale * prototypes, transpose_b=True)
    squared = row_scale * products + row_norm + tf.transpose(center_norm)
    is_accurate = (tf.reduce_min(squared) > SAFE_SQUARED_DISTANCE) & (tf.reduce_min(row_scale) > SAFE_SCALE)
    distances = tf.cond(
        is_accurate,
        lambda: tf.sqrt(squared),
        lambda: tf.sqrt(tf.nn.relu(_anchored_squared_distances(_clip(rows), _clip(prototypes), squared))),
    )
    return CostState(distances, row_scale, row_norm, center_scale, center_norm)


def _gradients(
    rows: tf.Tensor, prototypes: tf.Tensor, state: CostState, upstream: tf.Tensor
) -> tuple[tf.Tensor, tf.Tensor]:
    """Return the gradients of rows and prototypes.

    With e_ji = upstream_ji / c_ji: `d/df_j = sum_i e_ji (f_j - w_i)` inside the ball, its tangent outside. Of clipped
    vectors, 2 f_j.w_i = |f_j|^2 + |w_i|^2 - c_ji^2 gives the radial part without another product.
    """
    distances, row_scale, row_norm, center_scale, center_norm = state
    centers = center_scale * prototypes
    ratio = tf.math.divide_no_nan(upstream * row_scale, distances)
    # Three sums over prototypes of one product: of e_ji w_i, of e_ji, and of e_ji |w_i|^2.
    columns = tf.concat([centers, tf.ones_like(center_norm), center_norm], axis=1)
    towards, own, squares = tf.split(tf.matmul(ratio, columns), [rows.shape[1], 1, 1], axis=1)
    along = tf.reduce_sum(upstream * distances, axis=1, keepdims=True)  # of e_ji c_ji^2
    radial = 0.5 * (row_norm * own + squares - row_scale * along)
    # Decided by the squared norm after clipping, which is exactly 1 outside the ball, not by the scale, which need not
    # be exactly 1 inside it: vectorised float32 rsqrt refines the processor's own estimate, and its rsqrt(1) is
    # .99999988 on some of them. A vector that was clipped before is a rounding error inside or outside: on the sphere.
    rows_gradient = tf.where(row_norm < SPHERE, own, radial) * row_scale * rows - towards
    others = tf.matmul(ratio, rows, transpose_a=True)  # sum_j e_ji f_j
    sums = tf.matmul(ratio, tf.math.reciprocal_no_nan(row_scale), transpose_a=True)  # sum_j e_ji
    own = tf.where(center_norm < SPHERE, sums, _row_sums(others * centers)) * center_scale
    return rows_gradient, own * centers - center_scale * others


def _scale_and_squared_norm(vectors: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
    """Return each vector's clipping factor and clipped squared norm, `[vectors, 1]`."""
    squared = _row_sums(vectors * vectors)
    return tf.math.rsqrt(tf.maximum(squared, 1.0)), tf.minimum(squared, 1.0)


def _row_sums(values: tf.Tensor) -> tf.Tensor:
    """Sum rows to `[rows, 1]` by a matrix product; XLA sums short rows serially."""
    return tf.matmul(values, tf.ones([values.shape[1], 1], values.dtype))


def _clip(vectors: tf.Tensor) -> tf.Tensor:
    """Return `v / max(1, ||v||)` of vectors whose squares may overflow."""
    largest = tf.maximum(tf.reduce_max(tf.abs(vectors), axis=1, keepdims=True), 1.0)
    vectors = vectors / largest
    norms = tf.sqrt(tf.reduce_sum(vectors * vectors, axis=1, keepdims=True))
    return vectors / tf.maximum(norms, 1.0 / largest)


def _anchored_squared_distances(points: tf.Tensor, centers: tf.Tensor, estimates: tf.Tensor) -> tf.Tensor:
    """Return squared distances by differences to the nearest center by `estimates` `[rows, centers]`."""
    nearest = tf.argmin(tf.where(tf.math.is_finite(estimates), estimates, 4.0), axis=1, output_type=tf.int32)
    offsets = points - tf.gather(centers, nearest)  # r_j
    # The product of no rows, where no example of `tf.vectorized_map` needs this, would have no columns either.
    along = tf.reshape(tf.matmul(offsets, centers, transpose_b=True), tf.shape(estimates))
    along_nearest = tf.gather(along, nearest, axis=1, batch_dims=1)[:, None]
    own = tf.reduce_sum(offsets * offsets, axis=1, keepdims=True)
    return own + 2.0 * (along_nearest - along) + tf.gather(_squared_distances_among(centers), nearest)


def _squared_distances_among(centers: tf.Tensor) -> tf.Tensor:
    """Return `|w_k - w_i|^2`, one k at a time, `[centers, centers]`."""
    num_centers = centers.shape[0]

    def row(index: tf.Tensor, squared: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        differences = centers - tf.gather(centers, index)
        values = tf.reduce_sum(differences * differences, axis=1)
        return index + 1, tf.where(tf.range(num_centers)[:, None] == index, values[None, :], squared)

    start = (tf.constant(0), tf.zeros([num_centers, num_centers], centers.dtype))
    return tf.while_loop(lambda index, _: index < num_centers, row, start, maximum_iterations=num_centers)[1]
