import numpy as np
import pytest
import scipy.optimize
import tensorflow as tf

from common.errors import InvalidInput
from gsp_dml.partial_transport import partial_transport, weight_perplexity
from tests.gsp_dml.transport_oracle import FAMILIES, bisected_transport, log_sum_exp, random_costs

PROBLEMS_A_CASE = 36
CASES_A_QUARTER = 10  # 7 families x 4 quarters x 10 cases x 36 problems = 10,080 problems


def random_settings(case, num_positions, rng):
    """Transport ratios and smoothings: any, a whole number of positions (weights saturate), or nearly one."""
    smoothing = float(np.float32(10 ** rng.uniform(-1, 3)))
    ratio = rng.uniform(0.01, 1.0)
    if case % 4 == 1:
        ratio = np.clip(np.rint(ratio * num_positions), 1, num_positions - 1) / num_positions
    elif case % 4 == 2:
        ratio = 1 - 10 ** rng.uniform(-6, -1)
    return float(ratio), smoothing


@pytest.mark.slow
@pytest.mark.parametrize("quarter", [0, *(pytest.param(number, marks=pytest.mark.release) for number in (1, 2, 3))])
@pytest.mark.parametrize("family", FAMILIES)
def test_random_and_adversarial_problems_agree_with_a_float64_oracle(family, quarter):
    rng = np.random.default_rng([FAMILIES.index(family), quarter])
    for case in range(CASES_A_QUARTER):
        num_positions = int(rng.integers(4, 12 if case % 3 == 0 else 401 if case % 10 == 0 else 120))
        num_prototypes = int(rng.choice([1, 2, 5, 16, 64, 256 if num_positions < 40 else 1]))
        costs = random_costs(family, PROBLEMS_A_CASE, num_positions, num_prototypes, rng)
        ratio, smoothing = random_settings(case, num_positions, rng)
        solution = partial_transport(costs, ratio, smoothing, return_plan=True)
        weights, attributes, plan = (part.numpy().astype(np.float64) for part in solution)
        expected_weights, expected_attributes, _ = bisected_transport(costs, ratio, smoothing)
        assert all(np.isfinite(part).all() for part in (weights, attributes, plan))
        np.testing.assert_allclose(weights, expected_weights, rtol=1e-4, atol=1e-30)  # relative, however small
        np.testing.assert_allclose(attributes, expected_attributes, rtol=1e-3, atol=1e-6)
        np.testing.assert_allclose(plan.sum(axis=(1, 2)), ratio, atol=1e-6)
        left_behind = 1 / num_positions - plan.sum(axis=2)
        np.testing.assert_allclose(weights, (1 / num_positions - left_behind) / ratio, atol=1e-6)
        assert (left_behind > -1e-6 / num_positions).all()
        assert (plan >= 0).all()


def small_costs(problems=3, positions=7, prototypes=4, seed=0):
    return np.random.default_rng(seed).uniform(0.0, 1.5, size=(problems, positions, prototypes))


def test_a_generic_optimiser_finds_no_better_plan():
    """(P2) as printed, minimised by SLSQP."""
    costs, ratio, smoothing = small_costs(1, 5, 3)[0], 0.4, 4.0

    def objective(x):
        left, plan = x[:5], x[5:].reshape(5, 3)
        return (costs * plan).sum() + sum((part * np.log(part)).sum() for part in (left, plan)) / smoothing

    constraints = [
        {"type": "eq", "fun": lambda x: x[:5] + x[5:].reshape(5, 3).sum(axis=1) - 0.2},
        {"type": "eq", "fun": lambda x: x[5:].sum() - ratio},
    ]
    start = np.concatenate([np.full(5, (1 - ratio) / 5), np.full(15, ratio / 15)])
    found = scipy.optimize.minimize(
        objective, start, bounds=[(1e-12, 1)] * 20, constraints=constraints, method="SLSQP", options={"ftol": 1e-14}
    )
    solution = partial_transport(costs, ratio, smoothing, return_plan=True)
    ours = np.concatenate([0.2 - ratio * solution.weights.numpy(), solution.plan.numpy().ravel()])
    assert objective(ours) <= found.fun + 1e-9
    np.testing.assert_allclose(ours, found.x, atol=1e-4)


def test_the_whole_mass_is_average_pooling_exactly():
    solution = partial_transport(small_costs().astype(np.float32), 1, 5.0, return_plan=True)
    np.testing.assert_array_equal(solution.weights, np.full((3, 7), np.float32(1) / np.float32(7)))
    expected = np.exp(-5 * small_costs())
    expected = (expected / expected.sum(axis=-1, keepdims=True)).mean(axis=1)
    np.testing.assert_allclose(solution.attributes, expected, rtol=1e-5)
    np.testing.assert_allclose(tf.reduce_sum(solution.plan, axis=[1, 2]), 1.0, rtol=1e-6)


def test_a_vanishing_mass_is_a_softmax():
    costs = small_costs()
    logits = log_sum_exp(-5 * costs)
    weights = partial_transport(costs, 1e-7, 5.0).weights
    np.testing.assert_allclose(weights, np.exp(logits - log_sum_exp(logits)[:, None]), rtol=1e-5)


@pytest.mark.parametrize("ratio", [0.3, 1.0])
@pytest.mark.parametrize("solver", ["exact", "fixed_point"])
def test_masked_positions_are_as_if_they_were_not_there(ratio, solver):
    costs = small_costs(4, 9, 3)
    lengths = [9, 4, 1, 0]
    mask = np.arange(9) < np.array(lengths)[:, None]
    spoiled = np.where(mask[..., None], costs, np.nan)
    solution = partial_transport(spoiled, ratio, 5.0, solver=solver, mask=mask, return_plan=True)
    for problem, length in enumerate(lengths[:3]):
        alone = partial_transport(costs[problem, :length], ratio, 5.0, solver=solver, return_plan=True)
        np.testing.assert_allclose(solution.weights[problem, :length], alone.weights, rtol=1e-9)
        np.testing.assert_allclose(solution.attributes[problem], alone.attributes, rtol=1e-9)
        np.testing.assert_allclose(solution.plan[problem, :length], alone.plan, rtol=1e-9)
        assert not solution.weights[problem, length:].numpy().any()
    for part in solution:
        np.testing.assert_array_equal(part[3], np.zeros_like(part[3]))


def test_a_ratio_as_tensor_equals_the_number_for_each_problem():
    costs, ratios = small_costs(), [1e-4, 0.5, 0.95]
    together = partial_transport(costs, tf.constant(ratios, tf.float64), 5.0, return_plan=True)
    for problem, ratio in enumerate(ratios):
        alone = partial_transport(costs[problem], ratio, 5.0, return_plan=True)
        scalar = partial_transport(costs[problem], tf.constant(ratio, tf.float64), 5.0, return_plan=True)
        for part, expected, of_scalar in zip(together, alone, scalar):
            np.testing.assert_allclose(part[problem], expected, rtol=1e-10)
            np.testing.assert_allclose(of_scalar, expected, rtol=1e-10)


def test_a_tensor_ratio_of_one_is_clipped_to_average_pooling():
    weights = partial_transport(small_costs().astype(np.float32), tf.constant(1.0), 5.0).weights
    np.testing.assert_allclose(weights, np.full((3, 7), 1 / 7), rtol=1e-6)


def test_perplexity_counts_the_positions_in_use():
    weights = np.array([[0.25, 0.25, 0.25, 0.25], [0.5, 0.5, 0, 0], [0, 1, 0, 0], [0.9, 0.1, 0, 0]])
    expected = [4, 2, 1, 0.9**-0.9 * 0.1**-0.1]
    np.testing.assert_allclose(weight_perplexity(weights), expected, rtol=1e-12)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"transport_ratio": 0.0}, "transport_ratio"),
        ({"transport_ratio": 1.5}, "transport_ratio"),
        ({"smoothing": 0.0}, "smoothing"),
        ({"solver": "sinkhorn"}, "exact, fixed_point"),
        ({"gradient": "none"}, "closed_form, unrolled"),
        ({"num_iterations": 4}, "at least 5"),
        ({"num_iterations": 0, "solver": "fixed_point"}, "at least 1"),
    ],
)
def test_bad_settings_are_named(arguments, message):
    with pytest.raises(InvalidInput, match=message):
        partial_transport(**{"costs": small_costs(), "transport_ratio": 0.3, "smoothing": 5.0, **arguments})


@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize(("return_attributes", "return_plan"), [(False, True), (True, False), (True, True)])
def test_the_closed_form_is_the_gradient_of_the_iterations(return_attributes, return_plan, masked):
    costs, gradients = tf.constant(small_costs()), []
    mask = np.arange(7) < np.array([[7], [4], [5]]) if masked else None
    for gradient in ("closed_form", "unrolled"):
        with tf.GradientTape() as tape:
            tape.watch(costs)
            options = {"return_attributes": return_attributes, "return_plan": return_plan, "gradient": gradient}
            solution = partial_transport(costs, 0.4, 5.0, mask=mask, **options)
            value = tf.add_n([tf.reduce_sum(tf.sin(9.0 * part) ** 2) for part in solution if part is not None])
        gradients.append(tape.gradient(value, costs).numpy())
    assert np.abs(gradients[0]).max() > 0.1
    np.testing.assert_allclose(*gradients, rtol=1e-7, atol=1e-9)
    assert mask is None or not gradients[0][~mask].any()


@pytest.mark.parametrize("function", ["eager", pytest.param("function", marks=pytest.mark.release), "xla"])
def test_costs_of_any_size_move_the_mass(function):
    """Smoothing x cost of 1e11: nearly all mass moves, so that both positions have half of the weight."""

    def weights(costs, mask=None):
        return partial_transport(costs, 0.999999, 1e11, mask=mask).weights

    wrapped = weights
    if function != "eager":
        wrapped = tf.function(weights, jit_compile=function == "xla", autograph=False)
    costs = tf.constant([[[0.0], [1.0]], [[0.3], [0.3]]])
    np.testing.assert_allclose(wrapped(costs), np.full((2, 2), 0.5), rtol=1e-5)
    masked = wrapped(tf.constant([[[1.0], [0.0], [0.5]]] * 2), tf.constant([[True, False, True], [False] * 3]))
    np.testing.assert_allclose(masked, [[0.5, 0.0, 0.5], [0.0, 0.0, 0.0]], rtol=1e-5)


def test_costs_that_are_far_apart_agree_with_a_float64_oracle():
    """Spreads of 2,000 to 1e8, in float32, whole numbers of positions among the masses."""
    rng = np.random.default_rng(0)
    for case in range(30):
        costs = (rng.uniform(size=(6, 12, 3)) * rng.choice([1.0, 1e-3, 1.0 + 1e-6], size=(6, 12, 1))).astype(np.float32)
        ratio = (case % 11 + 1) / 12 if case % 2 else rng.uniform(0.01, 0.999)
        smoothing = float(np.float32(10 ** rng.uniform(3.5, 8)))
        found = partial_transport(costs, ratio, smoothing)
        weights, attributes, _ = bisected_transport(costs, ratio, smoothing)
        np.testing.assert_allclose(found.weights, weights, rtol=1e-3, atol=1e-6)
        np.testing.assert_allclose(found.attributes, attributes, rtol=1e-3, atol=1e-6)
