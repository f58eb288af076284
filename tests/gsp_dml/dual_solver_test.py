import numpy as np
import pytest
import tensorflow as tf

from gsp_dml import dual_solver
from gsp_dml.dual_solver import EXACT_STEPS, Dual, iterate_fixed_point, solve_exactly


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
