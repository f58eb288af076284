"""Costs against differences of clipped vectors in float64, also where inner products lose them."""

import numpy as np
import pytest
import tensorflow as tf

from common.ops.normalization import normalize
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


@pytest.mark.parametrize("scale", [1.0, 4.0])
def test_the_gradient_agrees_with_central_differences(scale):
    features, prototypes = random_problem(scale)
    upstream = np.random.default_rng(3).normal(size=(2, 3, 5, 4))
    theoretical, numerical = tf.test.compute_gradient(
        lambda f, w: tf.reduce_sum(upstream * prototype_costs(f, w)),
        [tf.constant(features), tf.constant(prototypes)],
        delta=1e-6,
    )
    for closed_form, differences in zip(theoretical, numerical):
        np.testing.assert_allclose(closed_form, differences, atol=1e-7)


def test_clipped_vectors_have_tangential_gradients_however_they_were_rounded():
    """GSP's prototypes begin as clipped features: a third of these are a rounding error inside the unit ball."""
    rng = np.random.default_rng(5)
    features, prototypes = (
        tf.Variable(normalize(10 * rng.normal(size=(num, 64)).astype(np.float32), "clip")) for num in (200, 96)
    )
    for vectors in (features, prototypes):
        squared = tf.reduce_sum(tf.cast(vectors, tf.float64) ** 2, axis=1).numpy()
        assert (squared < 1).sum() > 20
        assert (squared > 1).sum() > 20
    with tf.GradientTape() as tape:
        costs = prototype_costs(features, prototypes)
        total = tf.reduce_sum(costs * rng.normal(size=costs.shape).astype(np.float32))
    for vectors, gradient in zip((features, prototypes), tape.gradient(total, (features, prototypes))):
        radial = tf.reduce_sum(gradient * vectors, axis=1)
        np.testing.assert_allclose(radial, np.zeros(len(radial)), atol=2e-4)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("length", [0.5, 1.0, 30.0])
def test_a_feature_that_equals_a_prototype_has_cost_zero_and_gradient_zero(dtype, length):
    vector = tf.constant(length * clip(100 * np.random.default_rng(4).normal(size=(1, 16))), dtype)
    with tf.GradientTape() as tape:
        tape.watch(vector)
        cost = prototype_costs(vector, tf.identity(vector))
    np.testing.assert_array_equal(cost, [[0.0]])
    np.testing.assert_array_equal(tape.gradient(cost, vector), np.zeros((1, 16)))


def test_the_gradient_is_a_unit_vector_down_to_small_distances():
    prototype = np.zeros((1, 8), np.float32)
    prototype[0, 0] = 0.9
    for distance in (1e-1, 1e-3, 1e-4):
        feature = prototype.copy()
        feature[0, 1] += distance
        feature = tf.constant(feature)
        with tf.GradientTape() as tape:
            tape.watch(feature)
            cost = prototype_costs(feature, prototype)
        np.testing.assert_allclose(tape.gradient(cost, feature), np.eye(8)[1:2], atol=2e-3)
