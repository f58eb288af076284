"""Masks, reductions, transport and centers."""

import numpy as np
import pytest
import tensorflow as tf

from common.errors import InvalidInput
from common.ops.k_center import covering_radius, greedy_k_center, nearest_squared_distances
from common.ops.pair_masks import consecutive_labels, integer_labels, pair_masks
from common.ops.reductions import (
    log1p_sum_exp,
    log_sum_exp,
    masked_mean,
    mean_of_nonzero,
    mean_or_zero,
    softmax_means_by_group,
)
from common.ops.sinkhorn import balanced_transport_plan


def test_references_that_are_not_valid_take_no_part():
    positive, negative = pair_masks([5, 3], [3, 5, 5], [True, True, False])
    np.testing.assert_array_equal(positive, [[0, 1, 0], [1, 0, 0]])
    np.testing.assert_array_equal(negative, [[1, 0, 0], [0, 1, 0]])


@pytest.mark.parametrize("alone", [True, False])
def test_pairs_that_share_one_of_several_labels(alone):
    rng = np.random.default_rng(0)
    labels, others = rng.random((9, 4)) < 0.3, rng.random((7, 4)) < 0.3
    assert not labels.any(axis=1).all()  # an image without a label is nobody's positive, and not its own negative
    positive, negative = pair_masks(labels) if alone else pair_masks(labels, others)
    for i, row in enumerate(labels):
        for j, column in enumerate(labels if alone else others):
            shares = any(a and b for a, b in zip(row, column))
            is_pair = not (alone and i == j)
            assert (positive[i, j], negative[i, j]) == (is_pair and shares, is_pair and not shares)


def test_several_labels_beside_class_ids_are_refused():
    several = np.eye(3, dtype=bool)
    for others in (np.arange(3), np.eye(4, dtype=bool)):
        with pytest.raises(InvalidInput, match="labels of batch and references.*expected class ids on both sides"):
            pair_masks(several, others)


@pytest.mark.parametrize("dtype", [np.uint8, np.int32, np.int64, np.uint64])
def test_any_integer_type_compares_with_any_other(dtype):
    positive, _ = pair_masks(np.array([1, 2], dtype), np.array([2, 1], np.int32))
    np.testing.assert_array_equal(positive, [[0, 1], [1, 0]])


def test_ids_that_float32_or_float64_would_merge_stay_apart():
    for base in (2**24, 2**53):
        positive, _ = pair_masks(np.array([base, base + 1]))
        assert not np.any(positive)


def test_labels_that_are_not_integers_are_refused():
    with pytest.raises(
        InvalidInput, match="received 'float64', expected an integer type. Class ids above 2\\^24 collide"
    ):
        integer_labels(np.array([1.0]))


def test_consecutive_labels_equal_those_of_numpy():
    labels = np.random.default_rng(0).integers(-5, 5, 40) * 2**55
    np.testing.assert_array_equal(consecutive_labels(labels), np.unique(labels, return_inverse=True)[1])
    np.testing.assert_array_equal(consecutive_labels(np.array([], np.int64)), [])


LOGITS = np.array([[1.0, -2.0, 0.5], [300.0, 200.0, 299.0], [-900.0, -901.0, -902.0], [4.0, 5.0, 6.0]])
MASK = np.array([[True, True, False], [True, True, True], [True, True, False], [False, False, False]])


def test_means_of_some_of_all_and_of_none():
    assert masked_mean(np.array([1.0, 2.0, 6.0]), np.array([True, False, True])) == 3.5
    assert masked_mean(np.array([1.0, 2.0]), np.array([False, False])) == 0.0
    assert mean_or_zero(tf.constant([[1.0, 2.0], [0.0, 6.0]])) == 2.25
    assert mean_or_zero(tf.zeros([0])) == 0.0
    assert np.isnan(mean_or_zero(tf.constant([1.0, np.nan])))
    assert mean_of_nonzero(np.array([[0.0, 2.0], [4.0, 0.0]])) == 3.0
    assert mean_of_nonzero(np.zeros((2, 2))) == 0.0


def test_log_sum_exp():
    expected = [np.logaddexp(1.0, -2.0), np.logaddexp.reduce(LOGITS[1]), np.logaddexp(-900.0, -901.0), 0.0]
    np.testing.assert_allclose(log_sum_exp(LOGITS, MASK), expected, rtol=1e-12)
    np.testing.assert_allclose(log_sum_exp(LOGITS.T, MASK.T, axis=0), expected, rtol=1e-12)


def test_log1p_sum_exp():
    expected = [np.log1p(np.exp(1.0) + np.exp(-2.0)), np.logaddexp.reduce(LOGITS[1]), 0.0, 0.0]
    np.testing.assert_allclose(log1p_sum_exp(LOGITS, MASK), expected, rtol=1e-12)
    tiny = log1p_sum_exp(np.array([[-40.0]]), np.array([[True]]))
    np.testing.assert_allclose(tiny, [np.exp(-40.0)], rtol=1e-12)  # not lost beside the 1


@pytest.mark.parametrize("function", [log_sum_exp, log1p_sum_exp])
def test_gradient_is_the_softmax_of_the_members(function):
    logits = tf.constant(LOGITS)
    with tf.GradientTape() as tape:
        tape.watch(logits)
        total = tf.reduce_sum(function(logits, MASK))
    exponentials = np.where(MASK, np.exp(LOGITS - LOGITS.max(axis=1, keepdims=True)), 0.0)
    extra = np.exp(np.minimum(-LOGITS.max(axis=1, keepdims=True), 700.0)) if function is log1p_sum_exp else 0.0
    denominators = exponentials.sum(axis=1, keepdims=True) + extra
    expected = np.divide(exponentials, denominators, out=np.zeros_like(LOGITS), where=denominators > 0)
    np.testing.assert_allclose(tape.gradient(total, logits), expected, atol=1e-12)


def test_softmax_means_by_group_equal_loops():
    rng = np.random.default_rng(0)
    values, valid, groups = rng.normal(size=(9, 4)), rng.uniform(size=(9, 4)) < 0.7, rng.integers(0, 4, 9)
    valid[groups == 2] = False
    means, occupied = softmax_means_by_group(values, valid, groups, 5, temperature=0.3)
    for group in range(5):
        for column in range(4):
            members = values[(groups == group) & valid[:, column], column]
            weights = np.exp(members / 0.3)
            expected = np.sum(weights * members) / np.sum(weights) if len(members) else 0.0
            np.testing.assert_allclose(means[group, column], expected, rtol=1e-10, atol=1e-15)
            assert bool(occupied[group, column]) == (len(members) > 0)


def test_groups_that_are_far_apart_each_have_a_mean():
    values, groups = np.array([[900.0], [-900.0], [-901.0]]), np.array([0, 1, 1])
    means, occupied = softmax_means_by_group(values, np.ones((3, 1), bool), groups, 2, temperature=1.0)
    np.testing.assert_allclose(means, [[900.0], [-900.0 - 1.0 / (1.0 + np.e)]], rtol=1e-12)
    assert occupied.numpy().all()


def test_what_is_no_number_is_not_left_out():
    values, mask = np.array([[1.0, np.nan], [2.0, 3.0]]), np.array([[True, True], [True, False]])
    assert np.isnan(mean_of_nonzero(values))
    np.testing.assert_allclose(log_sum_exp(values, mask), [np.nan, 2.0])
    np.testing.assert_allclose(log1p_sum_exp(values, mask), [np.nan, np.log1p(np.exp(2.0))])
    means, occupied = softmax_means_by_group(values, mask, np.array([0, 1]), 2, temperature=1.0)
    np.testing.assert_allclose(means, [[1.0, np.nan], [2.0, 0.0]])
    assert occupied.numpy().tolist() == [[True, True], [True, False]]


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


def greedy_oracle(points, num_centers, initial=None):
    """Loops over candidates; the first of the farthest wins, what is picked is out."""
    chosen, repelling = [], [] if initial is None else list(initial)
    for _ in range(num_centers):
        best, best_distance = None, -1.0
        for index, point in enumerate(points):
            if index in chosen:
                continue
            others = [*repelling, *(points[c] for c in chosen)]
            distance = min((np.sum((point - other) ** 2) for other in others), default=np.inf)
            if distance > best_distance:
                best, best_distance = index, distance
        chosen.append(best)
    return chosen


def random_case(rng):
    """Integer grids, so that distances are exact and ties and duplicates are frequent."""
    num_points = int(rng.integers(1, 15))
    points = rng.integers(-3, 4, size=(num_points, int(rng.integers(1, 4)))).astype(np.float32)
    initial = rng.integers(-3, 4, size=(int(rng.integers(1, 4)), points.shape[1])).astype(np.float32)
    return points, int(rng.integers(1, num_points + 1)), initial if rng.random() < 0.5 else None


@pytest.mark.parametrize("block", range(4))
def test_two_hundred_random_cases_equal_the_oracle(block):
    rng = np.random.default_rng(block)
    for _ in range(50):
        points, num_centers, initial = random_case(rng)
        np.testing.assert_array_equal(
            greedy_k_center(points, num_centers, initial), greedy_oracle(points, num_centers, initial)
        )


def radius_oracle(points, centers):
    return max(min(np.linalg.norm(point - center) for center in centers) for point in points)


def test_the_covering_radius_equals_its_definition():
    rng = np.random.default_rng(3)
    points, centers = rng.normal(size=(2, 7, 3)), rng.normal(size=(2, 4, 3))
    expected = [radius_oracle(p, c) for p, c in zip(points, centers)]
    np.testing.assert_allclose(covering_radius(points, centers), expected, rtol=1e-12)
    assert covering_radius(points, points).numpy().tolist() == [0.0, 0.0]


def test_a_covering_radius_has_no_gradient():
    points, centers = tf.constant([[0.0, 0.0], [3.0, 4.0]]), tf.constant([[0.0, 1.0]])
    with tf.GradientTape(persistent=True) as tape:
        tape.watch([points, centers])
        radius = covering_radius(points, centers)
    assert tape.gradient(radius, [points, centers]) == [None, None]


def test_near_duplicates_are_told_apart():
    """Distances of 1e-4 between unit vectors, which inner products in float32 do not see."""
    points = np.array([[1.0, 0.0], [1.0, 1e-4], [1.0, 3e-4]], np.float32)
    assert greedy_k_center(points, 3).numpy().tolist() == [0, 2, 1]
    np.testing.assert_allclose(nearest_squared_distances(points, points[:1]), [0.0, 1e-8, 9e-8], rtol=1e-4)


@pytest.mark.parametrize("spoiler", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("compiled", [False, True])
def test_points_that_are_not_finite_come_last_and_none_is_picked_twice(spoiler, compiled):
    points = np.array([[spoiler, 0.0], [0.0, 0.0], [0.0, 0.0], [4.0, 0.0], [1.0, spoiler], [3.0, 0.0]], np.float32)
    pick = tf.function(lambda: greedy_k_center(points, 6), jit_compile=compiled)
    assert pick().numpy().tolist() == [1, 3, 5, 2, 0, 4]
    assert greedy_k_center(points, 2, initial=[[spoiler, 0.0]]).numpy().tolist() == [1, 3]
    assert greedy_k_center(np.full((3, 2), spoiler, np.float32), 3).numpy().tolist() == [0, 1, 2]
