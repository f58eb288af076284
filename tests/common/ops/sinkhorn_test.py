import numpy as np
import pytest
import tensorflow as tf

from common.errors import InvalidInput
from common.ops.sinkhorn import balanced_transport_plan


def random_costs(shape=(2, 4, 6), seed=0):
    return np.random.default_rng(seed).uniform(0.0, 2.0, size=shape)


def multiplicative_sinkhorn(costs, smoothing, num_iterations, row_mass, column_mass):
    kernel, rows = np.exp(-smoothing * costs), np.ones(len(costs))
    for _ in range(num_iterations):
        columns = column_mass / (rows @ kernel)
        rows = row_mass / (kernel @ columns)
    return rows[:, None] * kernel * column_mass / (rows @ kernel)


@pytest.mark.parametrize("num_iterations", [1, 3, 10])
@pytest.mark.parametrize("smoothing", [0.5, 2.0, 20.0])
def test_equals_the_multiplicative_iteration(num_iterations, smoothing):
    costs = random_costs()
    plans = balanced_transport_plan(costs, smoothing, num_iterations)
    for plan, cost in zip(plans, costs):
        expected = multiplicative_sinkhorn(cost, smoothing, num_iterations, np.full(4, 1 / 4), np.full(6, 1 / 6))
        np.testing.assert_allclose(plan, expected, rtol=1e-10)


def test_given_marginals_and_empty_bins():
    costs = random_costs((1, 3, 4))
    rows, columns = np.array([0.5, 0.3, 0.2]), np.array([[0.4, 0.0, 0.5, 0.1]])
    costs = tf.constant(costs)
    with tf.GradientTape() as tape:
        tape.watch(costs)
        plan = balanced_transport_plan(costs, 3.0, 300, rows, columns)
        total = tf.reduce_sum(plan * plan)
    np.testing.assert_allclose(np.sum(plan[0], axis=1), rows, rtol=1e-9)
    np.testing.assert_allclose(np.sum(plan[0], axis=0), columns[0], rtol=1e-9)
    assert np.all(plan[0, :, 1] == 0.0)
    gradient = tape.gradient(total, costs)
    assert np.all(np.isfinite(gradient))
    assert np.all(gradient[0, :, 1] == 0.0)


@pytest.mark.parametrize("smoothing", [1e-3, 1e3, 1e5])
def test_extreme_smoothing_neither_overflows_nor_vanishes(smoothing):
    costs = random_costs((2, 4, 6)).astype(np.float32)
    plan = balanced_transport_plan(costs, smoothing, 10)
    assert plan.dtype == tf.float32
    assert np.all(np.isfinite(plan))
    np.testing.assert_allclose(np.sum(plan, axis=-2), 1 / 6, rtol=1e-2)


@pytest.mark.parametrize(("smoothing", "num_iterations", "name"), [(0.0, 5, "smoothing"), (1.0, 0, "num_iterations")])
def test_refuses(smoothing, num_iterations, name):
    with pytest.raises(InvalidInput, match=name):
        balanced_transport_plan(np.ones((2, 2)), smoothing, num_iterations)
