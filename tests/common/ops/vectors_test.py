"""Distances, lengths and precision of vectors."""

import numpy as np
import pytest
import tensorflow as tf

from common.ops.distances import pairwise_distances, pairwise_inner_products, pairwise_squared_distances
from common.ops.hyperbolic import exponential_map, pairwise_hyperbolic_distances
from common.ops.normalization import mean_norm, normalize, normalize_groups
from common.ops.precision import at_least_float32, in_full_precision
from tests.support import poincare_ball

DISTANCES_X = np.array([[0.0, 0.0], [3.0, 4.0], [1.0, 0.0]])
Y = np.array([[3.0, 4.0], [0.0, 1.0]])


def test_leading_dimensions_are_batches():
    x, y = np.random.default_rng(0).normal(size=(2, 3, 4, 5)), np.random.default_rng(1).normal(size=(2, 3, 6, 5))
    expected = np.linalg.norm(x[..., :, None, :] - y[..., None, :, :], axis=-1)
    np.testing.assert_allclose(pairwise_distances(x, y), expected, rtol=1e-9)
    np.testing.assert_allclose(pairwise_inner_products(x, y), np.einsum("...ad,...bd->...ab", x, y), rtol=1e-9)


@pytest.mark.parametrize("dim", [2, 128, 2048])
def test_coincident_vectors_have_distance_zero(dim):
    x = np.random.default_rng(0).normal(size=(64, dim)).astype(np.float32)
    x /= np.linalg.norm(x, axis=1, keepdims=True)
    assert np.all(np.diag(pairwise_distances(x, x)) == 0.0)


def test_gradient_is_exact_and_zero_at_distance_zero():
    x = tf.constant(DISTANCES_X)
    with tf.GradientTape() as tape:
        tape.watch(x)
        total = tf.reduce_sum(pairwise_distances(x, tf.constant(Y)) * [[1.0, 0.0], [1.0, 0.0], [0.0, 1.0]])
    expected = [[-0.6, -0.8], [0.0, 0.0], [np.sqrt(0.5), -np.sqrt(0.5)]]
    np.testing.assert_allclose(tape.gradient(total, x), expected, atol=1e-12)


@pytest.mark.parametrize("dtype", [tf.float16, tf.bfloat16, tf.float32])
def test_distances_half_precision_is_computed_in_float32(dtype):
    x = tf.cast(DISTANCES_X * 100.0, dtype)  # squares beyond the largest float16
    distances = pairwise_distances(x, x)
    assert distances.dtype == tf.float32
    np.testing.assert_allclose(distances[0], [0.0, 500.0, 100.0], rtol=1e-3)


@pytest.mark.parametrize("component", [np.nan, np.inf, -1e20, 1.5e19])
def test_a_vector_that_has_no_distance_is_nan_away_from_all(component):
    x = tf.constant([[0.0, component], [3.0, 4.0]], tf.float32)
    np.testing.assert_allclose(pairwise_distances(x, x), [[np.nan, np.nan], [np.nan, 0.0]])
    np.testing.assert_allclose(pairwise_squared_distances(x, tf.zeros([1, 2])), [[np.nan], [25.0]])


VECTORS = np.array([[3.0, 4.0], [0.3, 0.4], [0.0, 0.0]])


@pytest.mark.parametrize(
    ("mode", "expected"),
    [
        ("unit", [[0.6, 0.8], [0.6, 0.8], [0.0, 0.0]]),
        ("clip", [[0.6, 0.8], [0.3, 0.4], [0.0, 0.0]]),
        ("none", [[3.0, 4.0], [0.3, 0.4], [0.0, 0.0]]),
    ],
)
def test_normalization_values_by_hand(mode, expected):
    np.testing.assert_allclose(normalize(VECTORS, mode), expected, rtol=1e-12)


@pytest.mark.parametrize("dim", [8, 64, 1280])
def test_what_was_clipped_before_has_a_tangential_gradient_however_it_was_rounded(dim):
    rng = np.random.default_rng(0)
    once = normalize(rng.normal(size=(200, dim)).astype(np.float32) * 10, "clip").numpy()
    once *= np.float32(1) + np.linspace(-4, 4, 200).astype(np.float32)[:, None] * np.finfo(np.float32).eps
    squared = np.square(once.astype(np.float64)).sum(axis=1)
    assert (squared < 1).sum() > 50  # on either side of the sphere
    assert (squared > 1).sum() > 50
    vectors = tf.Variable(once)
    with tf.GradientTape() as tape:
        total = tf.reduce_sum(normalize(vectors, "clip") * rng.normal(size=once.shape).astype(np.float32))
    radial = tf.reduce_sum(tape.gradient(total, vectors) * once, axis=1)
    np.testing.assert_allclose(radial, np.zeros(200), atol=1e-4)
    np.testing.assert_allclose(normalize(vectors, "clip"), once, atol=1e-6)


@pytest.mark.parametrize("mode", ["unit", "clip", "none"])
def test_gradient_at_zero_is_finite(mode):
    x = tf.zeros((1, 2), tf.float16)
    with tf.GradientTape() as tape:
        tape.watch(x)
        total = tf.reduce_sum(normalize(x, mode))
    assert np.all(np.isfinite(tape.gradient(total, x)))


def test_normalization_half_precision_is_computed_in_float32():
    normalized = normalize(tf.constant([[300.0, 400.0]], tf.float16), "unit")
    assert normalized.dtype == tf.float32
    np.testing.assert_allclose(normalized, [[0.6, 0.8]], rtol=1e-6)


def test_the_mean_norm_has_a_gradient_of_unit_vectors_and_none_at_zero():
    x = tf.constant(VECTORS)
    with tf.GradientTape() as tape:
        tape.watch(x)
        value = mean_norm(x)
    np.testing.assert_allclose(value, 5.5 / 3.0)
    np.testing.assert_allclose(tape.gradient(value, x), np.array([[0.6, 0.8], [0.6, 0.8], [0.0, 0.0]]) / 3.0)


@pytest.mark.parametrize("mode", ["unit", "clip"])
@pytest.mark.parametrize("component", [np.nan, np.inf, -1e20])
def test_a_vector_without_a_direction_is_nan_and_no_other(mode, component):
    normalized = normalize(tf.constant([[3.0, component], [3.0, 4.0]], tf.float32), mode)
    np.testing.assert_allclose(normalized, [[np.nan, np.nan], [0.6, 0.8]], rtol=1e-6)


@pytest.mark.parametrize("mode", ["unit", "clip", "none"])
def test_groups_are_normalised_apart(mode):
    x = np.random.default_rng(0).normal(size=(4, 3, 7))
    expected = np.concatenate([normalize(part, mode) for part in (x[..., :2], x[..., 2:6], x[..., 6:])], axis=-1)
    np.testing.assert_array_equal(normalize_groups(tf.constant(x), mode, [2, 4, 1]), expected)


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


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (None, "float32"),
        ("float16", "float32"),
        ("mixed_float16", "float32"),
        ("mixed_bfloat16", "float32"),
        ("float32", "float32"),
        ("float64", "float64"),
        (tf.float64, "float64"),
        (tf.keras.mixed_precision.Policy("float64"), "float64"),
    ],
)
def test_types(given, expected):
    arguments = {"name": "pooling", "dtype": given}
    assert in_full_precision(arguments) == {"name": "pooling", "dtype": expected}
    assert arguments["dtype"] is given


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ("float64", "float64"),
        ("float32", "float32"),
        ("float16", "float32"),
        ("bfloat16", "float32"),
        ("int32", "float32"),
    ],
)
def test_half_precision_and_integers_become_float32(given, expected):
    assert at_least_float32(tf.ones([2], given)).dtype == expected
