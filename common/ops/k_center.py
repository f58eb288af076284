"""Greedy k-center: few points that cover many."""

from __future__ import annotations

from collections.abc import Callable

import tensorflow as tf

from common.errors import invalid
from common.ops.precision import at_least_float32


def greedy_k_center(points: tf.Tensor, num_centers: int, initial: tf.Tensor | None = None) -> tf.Tensor:
    """Pick `num_centers` points, each the farthest from all centers before it.

        q_k = argmax_j  min_{v in initial, q_1 ... q_(k-1)} ||x_j - v||

    Without `initial` the first point is the first center (Gonzalez' algorithm: its covering radius is at most twice the
    smallest possible). Initial centers only repel: they are not among the returned indices. Among points at the same
    distance the lowest index wins, and no point is picked twice. Distances are differences of coordinates, not inner
    products, so that near duplicates are distinguished. Points with a coordinate that is not finite come last, and
    repel no others, nor do such initial centers. No gradient.

    Reference: thesis Algorithm 2 (greedy k-center over a pool); T. Gonzalez, "Clustering to minimize the maximum
    intercluster distance", 1985.

    Args:
        points: `[..., points, dim]`, floating.
        num_centers: number of indices to return, from 1 to the number of points.
        initial: `[..., initial centers, dim]` or None.

    Returns:
        int32 `[..., num_centers]`, in the order in which they were picked.

    Raises:
        InvalidInput: `num_centers` is not between 1 and the number of points.
    """
    points = tf.stop_gradient(at_least_float32(points))
    num_points = points.shape[-2]
    if num_centers < 1 or (num_points is not None and num_centers > num_points):
        raise invalid("num_centers", received=num_centers, expected=f"an integer from 1 to {num_points} (the points)")
    farthest = tf.fill(tf.shape(points)[:-1], points.dtype.max)  # [..., points]
    squared_distances = farthest
    if initial is not None:
        initial = tf.stop_gradient(tf.cast(initial, points.dtype))
        squared_distances = _nearest(points, initial, farthest, _distances_or_farthest)
    is_finite = tf.reduce_all(tf.math.is_finite(points), axis=-1)
    squared_distances = tf.where(is_finite, squared_distances, -0.5)  # below all others, above what is picked
    slots = tf.range(num_centers)

    def pick(
        step: tf.Tensor, squared_distances: tf.Tensor, picked: tf.Tensor
    ) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
        index = tf.argmax(squared_distances, axis=-1, output_type=tf.int32)  # [...]; the first of equals
        center = tf.gather(points, index, axis=-2, batch_dims=points.shape.rank - 2)  # [..., dim]
        squared_distances = tf.minimum(squared_distances, _distances_or_farthest(points, center))
        is_center = tf.one_hot(index, tf.shape(points)[-2], on_value=True, off_value=False)
        squared_distances = tf.where(is_center, -tf.ones_like(squared_distances), squared_distances)
        return step + 1, squared_distances, tf.where(slots == step, index[..., None], picked)

    picked = tf.zeros(tf.concat([tf.shape(points)[:-2], [num_centers]], 0), tf.int32)
    state = (tf.constant(0), squared_distances, picked)
    shapes = (tf.TensorShape([]), points.shape[:-1], points.shape[:-2] + [num_centers])
    state = tuple(tf.ensure_shape(tensor, shape) for tensor, shape in zip(state, shapes))
    return tf.while_loop(lambda *_: True, pick, state, maximum_iterations=num_centers)[2]


def covering_radius(points: tf.Tensor, centers: tf.Tensor) -> tf.Tensor:
    """Return the largest distance to the nearest center: `max_j min_i ||x_j - v_i||`.

    Reference: thesis section 3.2.2 (the covering radius in the bound of the chance-constrained problem).

    Args:
        points: `[..., points, dim]`.
        centers: `[..., centers, dim]`.

    Returns:
        `[...]`, at least float32. No gradient.
    """
    return tf.sqrt(tf.reduce_max(nearest_squared_distances(points, centers), axis=-1))


def nearest_squared_distances(points: tf.Tensor, centers: tf.Tensor) -> tf.Tensor:
    """Return each point's squared distance to its nearest center.

    The points are `[..., points, dim]`, the centers `[..., centers, dim]`. One center at a time: memory stays at one
    copy of the points for any number of centers.

    Returns:
        `[..., points]`, at least float32; the largest number of the dtype when there are no centers. No gradient.
    """
    points = tf.stop_gradient(at_least_float32(points))
    centers = tf.stop_gradient(tf.cast(centers, points.dtype))
    return _nearest(points, centers, tf.fill(tf.shape(points)[:-1], points.dtype.max), _squared_distances)


def _nearest(
    points: tf.Tensor, centers: tf.Tensor, start: tf.Tensor, distances: Callable[[tf.Tensor, tf.Tensor], tf.Tensor]
) -> tf.Tensor:
    """Return the minimum of `start` `[..., points]` and the distances to all centers."""

    def compare(step: tf.Tensor, nearest: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        return step + 1, tf.minimum(nearest, distances(points, tf.gather(centers, step, axis=-2)))

    start = tf.ensure_shape(start, points.shape[:-1])
    num_centers = tf.shape(centers)[-2] if centers.shape[-2] is None else centers.shape[-2]
    return tf.while_loop(lambda *_: True, compare, (tf.constant(0), start), maximum_iterations=num_centers)[1]


def _squared_distances(points: tf.Tensor, center: tf.Tensor) -> tf.Tensor:
    """Return the squared distances `[..., points]` from points to one center."""
    return tf.reduce_sum(tf.math.squared_difference(points, center[..., None, :]), axis=-1)


def _distances_or_farthest(points: tf.Tensor, center: tf.Tensor) -> tf.Tensor:
    """Return `_squared_distances`, with the largest number of the type for NaN."""
    squared = _squared_distances(points, center)
    return tf.where(tf.math.is_nan(squared), squared.dtype.max, squared)
