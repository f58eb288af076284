import numpy as np
import pytest
import tensorflow as tf

from gsp_dml.prototype_costs import prototype_costs


def clip(vectors):
    vectors = np.asarray(vectors, np.float64)
    return vectors / np.maximum(1.0, np.linalg.norm(vectors, axis=-1, keepdims=True))


def distances(features, prototypes):
    """The definition, in float64."""
    return np.linalg.norm(clip(features)[..., None, :] - clip(prototypes), axis=-1)


def random_problem(scale=1.0, dim=8):
    rng = np.random.default_rng(0)
    features = rng.normal(size=(2, 3, 5, dim)) * rng.uniform(0.05, 1, size=(2, 3, 5, 1)) * scale
    return features, rng.normal(size=(4, dim)) * np.array([[0.1], [0.3], [0.6], [2.0]])


@pytest.mark.parametrize(("dtype", "tolerance"), [("float32", 1e-6), ("float64", 1e-12)])
def test_costs_equal_the_definition(dtype, tolerance):
    features, prototypes = (array.astype(dtype) for array in random_problem())
    costs = prototype_costs(features, prototypes)
    assert costs.dtype == dtype
    np.testing.assert_allclose(costs, distances(features, prototypes), atol=tolerance)


@pytest.mark.parametrize("exponent", [-2, -3, -4, -5])
def test_small_distances_keep_their_digits_in_float32(exponent):
    rng = np.random.default_rng(1)
    prototypes = clip(rng.normal(size=(3, 128))).astype(np.float32)
    step = clip(1e6 * rng.normal(size=(3, 128))) * 10.0**exponent
    features = (prototypes + step).astype(np.float32)
    expected = np.linalg.norm(clip(features) - clip(prototypes), axis=-1)
    found = np.diag(prototype_costs(features, prototypes))
    np.testing.assert_allclose(found, expected, rtol=1e-3)


def test_huge_and_tiny_features_are_clipped_without_overflow():
    directions = clip(np.random.default_rng(2).normal(size=(4, 6)) * 100)
    features = (directions * np.array([[1e37], [1e20], [1e-20], [1e-37]])).astype(np.float32)
    prototypes = (-directions).astype(np.float32)
    features_tensor = tf.constant(features)
    with tf.GradientTape() as tape:
        tape.watch(features_tensor)
        costs = prototype_costs(features_tensor, prototypes)
    np.testing.assert_allclose(costs, distances(features, prototypes), atol=1e-6)
    assert np.isfinite(tape.gradient(costs, features_tensor)).all()


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("length", [0.5, 1.0, 30.0])
def test_a_feature_that_equals_a_prototype_has_cost_zero_and_gradient_zero(dtype, length):
    vector = tf.constant(length * clip(100 * np.random.default_rng(4).normal(size=(1, 16))), dtype)
    with tf.GradientTape() as tape:
        tape.watch(vector)
        cost = prototype_costs(vector, tf.identity(vector))
    np.testing.assert_array_equal(cost, [[0.0]])
    np.testing.assert_array_equal(tape.gradient(cost, vector), np.zeros((1, 16)))
