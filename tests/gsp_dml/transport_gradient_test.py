import numpy as np
import pytest
import tensorflow as tf

from gsp_dml.partial_transport import partial_transport
from tests.support.samples import sampled

RATIOS = (0.1, 0.3, 0.5, 0.7, 0.9, 0.95)
SMOOTHINGS = (0.5, 5.0, 20.0, 100.0)


class RandomLoss:
    """A random linear function of weights, attributes and plan, one value per problem."""

    def __init__(self, smoothing, positions=7, prototypes=4, seed=0):
        rng = np.random.default_rng(seed)
        self.smoothing = smoothing
        self.costs = rng.uniform(0.0, 1.5, size=(positions, prototypes))
        self.factors = [rng.normal(size=shape) for shape in ((positions,), (prototypes,), (positions, prototypes))]

    def __call__(self, costs, ratio, **keywords):
        weights, attributes, plan = partial_transport(costs, ratio, self.smoothing, return_plan=True, **keywords)
        return (
            tf.reduce_sum(self.factors[0] * weights, axis=-1)
            + tf.reduce_sum(self.factors[1] * attributes, axis=-1)
            + tf.reduce_sum(self.factors[2] * plan, axis=[-2, -1])
        )

    def gradients(self, ratio, **keywords):
        costs, ratio = tf.constant(self.costs), tf.constant(ratio, tf.float64)
        with tf.GradientTape() as tape:
            tape.watch([costs, ratio])
            value = self(costs, ratio, **keywords)
        return [gradient.numpy() for gradient in tape.gradient(value, [costs, ratio])]


def central_differences(function, point, step):
    """Fourth order, for every entry of `point`; `function` takes all the shifted points at once."""
    shifts = step * np.eye(point.size).reshape(point.size, *point.shape)
    values = [np.asarray(function(point + distance * shifts)) for distance in (2, 1, -1, -2)]
    return ((8 * (values[1] - values[2]) - (values[0] - values[3])) / (12 * step)).reshape(point.shape)


@sampled("ratio, smoothing", RATIOS, SMOOTHINGS)
def test_costs_and_ratio_agree_with_central_differences(ratio, smoothing):
    loss = RandomLoss(smoothing)
    costs_gradient, ratio_gradient = loss.gradients(ratio)
    differences = central_differences(lambda c: loss(c, ratio), loss.costs, 1e-3 / max(1.0, smoothing))
    np.testing.assert_allclose(costs_gradient, differences, rtol=1e-6, atol=1e-6)
    differences = central_differences(lambda r: loss(loss.costs[None], tf.constant(r)), np.array(ratio), 1e-5)
    np.testing.assert_allclose(ratio_gradient, differences, rtol=1e-6, atol=1e-6)


def test_average_pooling_passes_a_gradient_through_the_attributes_only():
    loss = RandomLoss(5.0)
    costs = tf.constant(loss.costs)
    with tf.GradientTape() as tape:
        tape.watch(costs)
        value = loss(costs, 1)
    differences = central_differences(lambda c: loss(c, 1), loss.costs, 1e-4)
    np.testing.assert_allclose(tape.gradient(value, costs), differences, rtol=1e-7, atol=1e-9)


@pytest.mark.parametrize("smoothing", [20.0, 40.0, 80.0, 300.0])
def test_saturated_weights_keep_a_finite_and_correct_gradient_in_float32(smoothing):
    """As many positions are near as are kept: k is 1e-18 at smoothing 80, and the printed form divides by it."""
    loss = RandomLoss(smoothing, positions=10, prototypes=3)
    loss.costs = np.where(np.arange(10)[:, None] < 3, 0.1, 0.9) + 0.01 * loss.costs
    exact = loss.gradients(0.3)[0]
    loss.factors = [factor.astype(np.float32) for factor in loss.factors]
    costs = tf.constant(loss.costs, tf.float32)
    with tf.GradientTape() as tape:
        tape.watch(costs)
        value = loss(costs, 0.3)
    np.testing.assert_allclose(tape.gradient(value, costs), exact, atol=1e-4 * np.abs(exact).max())


def test_a_single_prototype_is_no_single_position():
    loss = RandomLoss(5.0, prototypes=1)
    for closed_form, unrolled in zip(loss.gradients(0.3), loss.gradients(0.3, gradient="unrolled")):
        np.testing.assert_allclose(closed_form, unrolled, rtol=1e-9, atol=1e-11)
