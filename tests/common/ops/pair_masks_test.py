import numpy as np
import pytest
import tensorflow as tf

from common.errors import InvalidInput
from common.ops.pair_masks import consecutive_labels, integer_labels, pair_masks


def test_batch_alone():
    positive, negative = pair_masks(tf.constant([5, 3, 5]))
    np.testing.assert_array_equal(positive, [[0, 0, 1], [0, 0, 0], [1, 0, 0]])
    np.testing.assert_array_equal(negative, [[0, 1, 0], [1, 0, 1], [0, 1, 0]])


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
