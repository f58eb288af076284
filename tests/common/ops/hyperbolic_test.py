import numpy as np
import pytest
import tensorflow as tf

from common.errors import InvalidInput
from common.ops.hyperbolic import exponential_map, pairwise_hyperbolic_distances
from tests.support import poincare_ball


def tangents(seed, longest, count=12, dim=5):
    """Of lengths from nothing up to `longest`."""
    rng = np.random.default_rng(seed)
    vectors = rng.normal(size=(count, dim))
    return vectors / np.linalg.norm(vectors, axis=1, keepdims=True) * np.linspace(0.001, longest, count)[:, None]


@pytest.mark.parametrize("curvature", [0.1, 1.0])
def test_points_and_distances_are_those_of_the_closed_forms(curvature):
    x, y = tangents(0, 2.3), tangents(1, 2.3)
    points = [poincare_ball.exponential(each, curvature) for each in x]
    np.testing.assert_allclose(exponential_map(x, curvature), np.array(points, np.float64), rtol=1e-13)
    expected = poincare_ball.distances(x, y, curvature)
    np.testing.assert_allclose(pairwise_hyperbolic_distances(x, y, curvature), expected, rtol=1e-12)
    nearly_flat = pairwise_hyperbolic_distances(x, y, 1e-8)
    np.testing.assert_allclose(nearly_flat, 2 * np.linalg.norm(x[:, None] - y[None], axis=2), rtol=1e-6)


def test_float32_is_stable_at_the_edge_of_the_ball():
    """1 - ‖x‖² of the farthest points is 2e-8, less than half a unit in the last place of 1."""
    x, y = (np.float32(tangents(seed, 9.5)) for seed in (0, 1))
    assert (np.linalg.norm(exponential_map(x, 1.0), axis=1) <= 1.0).all()
    expected = poincare_ball.distances(x, y, 1.0)
    np.testing.assert_allclose(pairwise_hyperbolic_distances(x, y, 1.0), expected, rtol=1e-5)


def test_gradients_are_those_of_differences_and_zero_at_distance_zero():
    x, y, step = tangents(0, 2.0, 3, 2), tangents(1, 2.0, 3, 2), 1e-6
    points = tf.constant(x)
    with tf.GradientTape() as tape:
        tape.watch(points)
        total = tf.reduce_sum(pairwise_hyperbolic_distances(points, tf.constant(y), 1.0))
    found = tape.gradient(total, points).numpy()
    for place in np.ndindex(*x.shape):
        shift = np.zeros_like(x)
        shift[place] = step
        sums = [poincare_ball.distances(x + sign * shift, y, 1.0).sum() for sign in (1, -1)]
        assert found[place] == pytest.approx((sums[0] - sums[1]) / (2 * step), rel=1e-6)

    same = tf.constant([[0.0, 0.0], [0.6, 0.8]])
    with tf.GradientTape(persistent=True) as tape:
        tape.watch(same)
        diagonal = tf.linalg.diag_part(pairwise_hyperbolic_distances(same, same, 1.0))
        mapped = tf.reduce_sum(exponential_map(same[:1], 1.0))
    assert diagonal.numpy().tolist() == [0.0, 0.0]
    assert not tape.gradient(diagonal, same).numpy().any()
    assert tape.gradient(mapped, same).numpy().tolist() == [[1.0, 1.0], [0.0, 0.0]]


@pytest.mark.parametrize("curvature", [0.0, -1.0])
def test_no_curvature_is_refused(curvature):
    with pytest.raises(InvalidInput, match="curvature: received .*, expected a number greater than 0"):
        pairwise_hyperbolic_distances(np.ones([1, 2]), np.ones([1, 2]), curvature)
