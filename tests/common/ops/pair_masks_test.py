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
