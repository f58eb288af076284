"""The costs of the transport problem: distances from local features to prototypes."""

from __future__ import annotations

import tensorflow as tf

from common.ops.precision import at_least_float32

SAFE_SQUARED_DISTANCE = 1e-2  # above it, |f|^2 + |w|^2 - 2 f.w has at least five correct digits in float32
SAFE_SCALE = 1e-15  # a vector that is scaled by less to reach the unit ball may have overflowed when it was squared


def prototype_costs(features, prototypes):
    """Distances between clipped vectors, not squared.

        c_ji = || clip(f_j) - clip(w_i) ||,     clip(v) = v / max(1, ||v||)

    Only the costs see clipped features; pooling averages the features themselves. One matrix product gives all costs,
    as |f|^2 + |w|^2 - 2 f.w; but in float32 that leaves 1e-3 of a true distance of 1e-3, and 0 of 1e-4. So when any
    feature is close to a prototype, all costs are computed again from the differences to the nearest prototypes, with
    r_j = f_j - w_k and k the nearest to j:

        c_ji^2 = |r_j|^2 + 2 r_j.(w_k - w_i) + |w_k - w_i|^2

    where no large numbers cancel: the error of a cost is about 1e-7 whatever its size. No temporary of size positions x
    prototypes x channels is made, and no double precision is needed.

    Reference: thesis section 5.2 and ICCV section 4 (the cost c_ij of P2).

    Gradient: closed form; 0 for a feature that equals a prototype (never NaN); only the tangential part for vectors
    outside the unit ball.

    Args:
        features: f, `[..., positions, channels]`; norms up to 1e37.
        prototypes: w, `[prototypes, channels]`.

    Returns:
        c, `[..., positions, prototypes]`, from 0 to 2; float64 if the features are, else float32.
    """
    features = at_least_float32(features)
    channels, num_prototypes = features.shape[-1], prototypes.shape[0]
    costs = _clipped_distances(tf.reshape(features, [-1, channels]), tf.cast(prototypes, features.dtype))
    return tf.reshape(costs, tf.concat([tf.shape(features)[:-1], [num_prototypes]], 0))


@tf.custom_gradient
def _clipped_distances(rows, prototypes):
    """`[rows, channels]`, `[prototypes, channels]` -> `[rows, prototypes]`."""
    row_scale, row_norm = _scale_and_squared_norm(rows)
    center_scale, center_norm = _scale_and_squared_norm(prototypes)
    centers, center_norm = center_scale * prototypes, tf.transpose(center_norm)
    squared = row_scale * tf.matmul(rows, -2.0 * centers, transpose_b=True) + row_norm + center_norm
    is_accurate = (tf.reduce_min(squared) > SAFE_SQUARED_DISTANCE) & (tf.reduce_min(row_scale) > SAFE_SCALE)
    squared = tf.cond(
        is_accurate, lambda: squared, lambda: _anchored_squared_distances(_clip(rows), _clip(prototypes), squared)
    )
    distances = tf.sqrt(tf.nn.relu(squared))

    def backward(upstream):
        """With e_ji = upstream_ji / c_ji: `d/df_j = sum_i e_ji (f_j - w_i)` inside the ball, its tangent outside."""
        ratio = tf.math.divide_no_nan(upstream, distances)
        sums = tf.reduce_sum(ratio, axis=0)[:, None]  # sum_j e_ji
        ratio *= row_scale
        towards = tf.matmul(ratio, centers)  # sum_i e_ji w_i
        radial = tf.reduce_sum(rows * towards, axis=1, keepdims=True) * row_scale * row_scale
        own = tf.where(row_scale < 1.0, radial, tf.reduce_sum(ratio, axis=1, keepdims=True))
        rows_gradient = own * rows - towards
        others = tf.matmul(ratio, rows, transpose_a=True)  # sum_j e_ji f_j
        radial = tf.reduce_sum(others * centers, axis=1, keepdims=True)
        own = tf.where(center_scale < 1.0, radial, sums) * center_scale
        return rows_gradient, own * centers - center_scale * others

    return distances, backward


def _scale_and_squared_norm(vectors):
    """The factor that clips each vector, and its squared norm after clipping, `[vectors, 1]`."""
    squared = tf.reduce_sum(vectors * vectors, axis=1, keepdims=True)
    return tf.math.rsqrt(tf.maximum(squared, 1.0)), tf.minimum(squared, 1.0)


def _clip(vectors):
    """`v / max(1, ||v||)`, of vectors whose squares may overflow."""
    largest = tf.maximum(tf.reduce_max(tf.abs(vectors), axis=1, keepdims=True), 1.0)
    vectors = vectors / largest
    norms = tf.sqrt(tf.reduce_sum(vectors * vectors, axis=1, keepdims=True))
    return vectors / tf.maximum(norms, 1.0 / largest)


def _anchored_squared_distances(points, centers, estimates):
    """Squared distances from differences to the nearest center; `estimates` `[rows, centers]` tell which that is."""
    nearest = tf.argmin(tf.where(tf.math.is_finite(estimates), estimates, 4.0), axis=1, output_type=tf.int32)
    offsets = points - tf.gather(centers, nearest)  # r_j
    along = tf.matmul(offsets, centers, transpose_b=True)
    along_nearest = tf.gather(along, nearest, axis=1, batch_dims=1)[:, None]
    own = tf.reduce_sum(offsets * offsets, axis=1, keepdims=True)
    return own + 2.0 * (along_nearest - along) + tf.gather(_squared_distances_among(centers), nearest)


def _squared_distances_among(centers):
    """`|w_k - w_i|^2`, one k at a time, `[centers, centers]`."""
    num_centers = centers.shape[0]

    def row(index, squared):
        differences = centers - tf.gather(centers, index)
        values = tf.reduce_sum(differences * differences, axis=1)
        return index + 1, tf.where(tf.range(num_centers)[:, None] == index, values[None, :], squared)

    start = (tf.constant(0), tf.zeros([num_centers, num_centers], centers.dtype))
    return tf.while_loop(lambda index, _: index < num_centers, row, start, maximum_iterations=num_centers)[1]
