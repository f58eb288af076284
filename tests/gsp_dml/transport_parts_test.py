import numpy as np
import pytest
import tensorflow as tf

from gsp_dml import dual_solver
from gsp_dml.dual_solver import EXACT_STEPS, Dual, iterate_fixed_point, solve_exactly
from gsp_dml.partial_transport import partial_transport
from gsp_dml.prototype_costs import prototype_costs
from tests.support.samples import sampled


def dual_of(nearest_cost, ratio, smoothing):
    """A problem with one prototype: the logits are -smoothing x cost."""
    nearest_cost = np.atleast_2d(nearest_cost)
    mass = nearest_cost.shape[1] * ratio
    return Dual(
        nearest_cost=tf.constant(nearest_cost),
        log_multiplicity=tf.zeros_like(nearest_cost),
        valid=None,
        ratio=tf.constant(ratio, nearest_cost.dtype),
        whole=tf.constant(round(mass), nearest_cost.dtype),
        rest=tf.constant(mass - round(mass), nearest_cost.dtype),
        smoothing=smoothing,
    )


def mass_error(dual, num_steps):
    share = tf.sigmoid(solve_exactly(dual, num_steps))
    return np.abs(tf.reduce_mean(share, axis=1) - dual.ratio).max()


@pytest.mark.parametrize("ratio", [0.01, 0.3, 0.5, 0.9, 1 - 1e-6])
def test_sixteen_steps_solve_every_spread(ratio):
    costs = np.random.default_rng(0).uniform(0, 2, size=(200, 50))
    for smoothing in (0.1, 5.0, 50.0, 1000.0):
        assert mass_error(dual_of(costs, ratio, smoothing), EXACT_STEPS) < 1e-12


def test_a_flat_mass_is_solved_by_its_tails():
    """Two groups 1.5 apart at smoothing 100: between them the mass is 1/2 to 1e-30, and only the tails decide."""
    costs = np.repeat([[0.2, 1.7]], 4, axis=1)
    logits = solve_exactly(dual_of(costs, 0.5, 100.0))
    np.testing.assert_allclose(np.unique(np.abs(logits)), [75.0], rtol=1e-12)


def test_no_more_steps_are_taken_than_are_asked_for(monkeypatch):
    taken = []
    for name in ("_mass_step", "_tail_step"):
        step = getattr(dual_solver, name)
        monkeypatch.setattr(dual_solver, name, lambda *state, step=step, name=name: taken.append(name) or step(*state))
    solve_exactly(dual_of(np.random.default_rng(0).uniform(0, 2, size=(20, 50)), 0.01, 1000.0), 12)
    assert (taken.count("_mass_step"), taken.count("_tail_step")) == (8, 4)


@pytest.mark.parametrize("ratio", [0.13, 0.3, 0.55])
def test_the_fixed_point_moves_the_same_mass(ratio):
    costs = np.random.default_rng(2).uniform(0, 2, size=(6, 9))
    dual = dual_of(costs, ratio, 5.0)
    found = iterate_fixed_point(dual, tf.constant(costs[..., None]), 200)
    np.testing.assert_allclose(found, solve_exactly(dual), atol=1e-9)
    np.testing.assert_allclose(tf.reduce_mean(tf.sigmoid(found), axis=1), ratio, rtol=1e-9)


@pytest.mark.parametrize("spread", [3e3, 1e5, 1e11, 1e30])
@pytest.mark.parametrize("ratio", [0.1, 0.5, 0.55, 0.7, 1 - 1e-6])
def test_costs_that_are_very_far_apart_are_solved_around_the_threshold(ratio, spread):
    """In float32: three groups of positions, of which one is cut in two, or two groups with nothing in between."""
    costs = np.repeat([0.0, 1.0, 1.1, 2.0], [2, 3, 2, 3]).astype(np.float32)[::-1]
    mass = ratio * len(costs)
    shares = tf.sigmoid(solve_exactly(dual_of(costs, ratio, spread)))[0].numpy()
    expected, left = [], mass
    for count in (2, 3, 2, 3):  # the cheapest first
        expected = [min(1.0, max(0.0, left) / count)] * count + expected
        left -= count
    np.testing.assert_allclose(shares, expected, rtol=1e-5, atol=1e-30)


def test_a_batch_of_near_and_far_costs_solves_each_as_if_alone():
    near = np.random.default_rng(0).uniform(0, 2, size=9)
    far = near * np.array([1.0] * 4 + [1e9] * 5)
    together = solve_exactly(dual_of(np.stack([near, far]), 0.35, 5.0))
    for row, costs in enumerate((near, far)):
        alone = tf.sigmoid(solve_exactly(dual_of(costs, 0.35, 5.0)))[0]
        np.testing.assert_allclose(tf.sigmoid(together[row]), alone, rtol=1e-9, atol=1e-30)


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
