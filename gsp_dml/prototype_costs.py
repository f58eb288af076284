"""The costs of the transport problem: distances from local features to prototypes."""

from __future__ import annotations

import tensorflow as tf

# Rounding of squared distances in the unit ball, in float64: vectors closer than the square root of it count as equal.
SQUARED_ROUNDING = 2e-15
SAFE_SQUARED_DISTANCE = 1e-2  # from here on float32 has at least five digits of it
SAFE_SCALE = 1e-15  # a vector that is scaled by less may have overflowed when it was squared


def prototype_costs(features, prototypes):
    """Distances between clipped vectors, not squared.

        c_ji = || clip(f_j) - clip(w_i) ||,     clip(v) = v / max(1, ||v||)

    Only the costs see clipped features; pooling averages the features themselves. The inner products and the norms are
    computed in float64: |f|^2 + |w|^2 - 2 f.w in float32 leaves 1e-3 of a true distance of 1e-3, and 0 of 1e-4. One
    matrix product in double precision is small beside the convolution before it, and no temporary of size positions x
    prototypes x channels is made. Norms up to 1e150 neither overflow nor vanish.

    Reference: thesis section 5.2 and ICCV section 4 (the cost c_ij of P2).

    Gradient: closed form, in the dtype of the costs; 0 for a feature that equals a prototype (never NaN); only the
    tangential part for vectors outside the unit ball.

    Args:
        features: f, `[..., positions, channels]`.
        prototypes: w, `[prototypes, channels]`.

    Returns:
        c, `[..., positions, prototypes]`, from 0 to 2; float64 if the features are, else float32.
    """
    features = tf.convert_to_tensor(features)
    dtype = tf.float64 if features.dtype == tf.float64 else tf.float32
    channels, num_prototypes = features.shape[-1], prototypes.shape[0]
    rows = tf.reshape(tf.cast(features, dtype), [-1, channels])
    costs = _clipped_distances(rows, tf.cast(prototypes, dtype))
    costs = tf.reshape(costs, tf.concat([tf.shape(features)[:-1], [num_prototypes]], 0))
    return tf.ensure_shape(costs, features.shape[:-1] + [num_prototypes])


@tf.custom_gradient
def _clipped_distances(rows, prototypes):
    """`[rows, channels]`, `[prototypes, channels]` -> `[rows, prototypes]`."""
    squared, row_scale, row_norm, center_scale, center_norm = _squared_distances(rows, prototypes)
    distances = tf.sqrt(tf.nn.relu(squared))

    def backward(upstream):
        """With e_ji = upstream_ji / c_ji: `d/df_j = sum_i e_ji (f_j - w_i)` inside the ball, its tangent outside."""
        ratio = tf.math.divide_no_nan(upstream, distances)
        sums = tf.matmul(ratio, tf.concat([tf.ones_like(center_norm), center_norm], 0), transpose_b=True)
        along = tf.reduce_sum(upstream * distances, axis=1, keepdims=True)
        radial = 0.5 * (row_norm * sums[:, :1] + sums[:, 1:] - along)  # f_j . sum_i e_ji w_i, by the cosine rule
        own = tf.where(row_scale < 1.0, radial, sums[:, :1]) * row_scale * row_scale
        sums = tf.reduce_sum(ratio, axis=0)[:, None]  # sum_j e_ji
        ratio *= row_scale
        rows_gradient = own * rows - tf.matmul(ratio, center_scale * prototypes)
        others = tf.matmul(ratio, rows, transpose_a=True)  # sum_j e_ji f_j
        radial = tf.reduce_sum(others * prototypes, axis=1, keepdims=True) * center_scale
        own = tf.where(center_scale < 1.0, radial, sums) * center_scale * center_scale
        return rows_gradient, own * prototypes - center_scale * others

    return distances, backward


def _squared_distances(rows, prototypes):
    """Squared distances, and of rows and prototypes the factors that clip them and the squared norms after it."""
    if rows.dtype == tf.float64:
        return _gram_form(rows, prototypes)
    single = _gram_form(rows, prototypes)
    is_exact = (tf.reduce_min(single[0]) > SAFE_SQUARED_DISTANCE) & (tf.reduce_min(single[1]) > SAFE_SCALE)

    def in_double():
        double = _gram_form(tf.cast(rows, tf.float64), tf.cast(prototypes, tf.float64))
        return tuple(tf.cast(part, rows.dtype) for part in double)

    return tf.cond(is_exact, lambda: single, in_double)


def _gram_form(rows, prototypes):
    """`|f|^2 + |w|^2 - 2 f.w` of clipped vectors in the dtype of the arguments."""
    row_norm = tf.reduce_sum(rows * rows, axis=1, keepdims=True)
    center_norm = tf.reduce_sum(prototypes * prototypes, axis=1)[None, :]
    row_scale = tf.math.rsqrt(tf.maximum(row_norm, 1.0))
    center_scale = tf.math.rsqrt(tf.maximum(center_norm, 1.0))
    row_norm, center_norm = tf.minimum(row_norm, 1.0), tf.minimum(center_norm, 1.0)
    products = tf.matmul(rows, -2.0 * tf.transpose(center_scale) * prototypes, transpose_b=True)
    squared = row_scale * products + row_norm + (center_norm - SQUARED_ROUNDING)
    return squared, row_scale, row_norm, tf.transpose(center_scale), center_norm
