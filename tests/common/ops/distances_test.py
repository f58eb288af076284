import numpy as np
import pytest
import tensorflow as tf

from common.ops.distances import pairwise_distances, pairwise_inner_products, pairwise_squared_distances

X = np.array([[0.0, 0.0], [3.0, 4.0], [1.0, 0.0]])
Y = np.array([[3.0, 4.0], [0.0, 1.0]])


def test_values_by_hand():
    np.testing.assert_allclose(pairwise_squared_distances(X, Y), [[25, 1], [0, 18], [20, 2]], rtol=1e-12)
    np.testing.assert_allclose(pairwise_distances(X, Y), np.sqrt([[25, 1], [0, 18], [20, 2]]), rtol=1e-12)
    np.testing.assert_allclose(pairwise_inner_products(X, Y), [[0, 0], [25, 4], [3, 0]], rtol=1e-12)


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
    x = tf.constant(X)
    with tf.GradientTape() as tape:
        tape.watch(x)
        total = tf.reduce_sum(pairwise_distances(x, tf.constant(Y)) * [[1.0, 0.0], [1.0, 0.0], [0.0, 1.0]])
    expected = [[-0.6, -0.8], [0.0, 0.0], [np.sqrt(0.5), -np.sqrt(0.5)]]
    np.testing.assert_allclose(tape.gradient(total, x), expected, atol=1e-12)


@pytest.mark.parametrize("dtype", [tf.float16, tf.bfloat16, tf.float32])
def test_half_precision_is_computed_in_float32(dtype):
    x = tf.cast(X * 100.0, dtype)  # squares beyond the largest float16
    distances = pairwise_distances(x, x)
    assert distances.dtype == tf.float32
    np.testing.assert_allclose(distances[0], [0.0, 500.0, 100.0], rtol=1e-3)


@pytest.mark.parametrize("component", [np.nan, np.inf, -1e20, 1.5e19])
def test_a_vector_that_has_no_distance_is_nan_away_from_all(component):
    x = tf.constant([[0.0, component], [3.0, 4.0]], tf.float32)
    np.testing.assert_allclose(pairwise_distances(x, x), [[np.nan, np.nan], [np.nan, 0.0]])
    np.testing.assert_allclose(pairwise_squared_distances(x, tf.zeros([1, 2])), [[np.nan], [25.0]])
