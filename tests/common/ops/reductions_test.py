import numpy as np
import pytest
import tensorflow as tf

from common.ops.reductions import (
    log1p_sum_exp,
    log_sum_exp,
    masked_mean,
    mean_of_nonzero,
    mean_or_zero,
    softmax_means_by_group,
)

LOGITS = np.array([[1.0, -2.0, 0.5], [300.0, 200.0, 299.0], [-900.0, -901.0, -902.0], [4.0, 5.0, 6.0]])
MASK = np.array([[True, True, False], [True, True, True], [True, True, False], [False, False, False]])


def test_masked_mean():
    assert masked_mean(np.array([1.0, 2.0, 6.0]), np.array([True, False, True])) == 3.5
    assert masked_mean(np.array([1.0, 2.0]), np.array([False, False])) == 0.0


def test_mean_or_zero():
    assert mean_or_zero(tf.constant([[1.0, 2.0], [0.0, 6.0]])) == 2.25
    assert mean_or_zero(tf.zeros([0])) == 0.0
    assert np.isnan(mean_or_zero(tf.constant([1.0, np.nan])))


def test_mean_of_nonzero():
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
