import numpy as np
import pytest
import tensorflow as tf

from common.errors import InvalidInput
from common.losses import class_ids


@pytest.mark.parametrize("dtype", [np.uint8, np.int32, np.int64, np.float16, np.float32, np.float64])
def test_ids_of_any_type_and_both_shapes(dtype):
    for labels in (np.array([0, 7, 200], dtype), np.array([[0], [7], [200]], dtype)):
        ids, are_exact = class_ids(labels)
        assert ids.dtype == tf.int64
        assert ids.numpy().tolist() == [0, 7, 200]
        assert are_exact


def test_large_integers_stay_as_they_are():
    assert class_ids(np.array([2**53 + 1]))[0].numpy().tolist() == [2**53 + 1]


@pytest.mark.parametrize(("dtype", "bits"), [("float16", 11), ("bfloat16", 8), ("float32", 24), ("float64", 53)])
def test_floats_up_to_where_whole_numbers_are_exact(dtype, bits):
    assert class_ids(tf.cast([2**bits - 1], dtype))[0].numpy().tolist() == [2**bits - 1]
    for label in (2**bits, -(2**bits)):
        with pytest.raises(tf.errors.InvalidArgumentError, match=rf"whole and below 2\^{bits}, for they are {dtype}"):
            class_ids(tf.cast([1, label], dtype))


@pytest.mark.parametrize("label", [0.5, np.nan, np.inf])
def test_floats_that_are_no_ids(label):
    with pytest.raises(tf.errors.InvalidArgumentError, match="expected class ids that are whole"):
        class_ids(np.array([1.0, label], np.float32))


def test_xla_says_what_it_cannot_stop():
    ids_of = tf.function(class_ids, jit_compile=True)
    assert not ids_of(tf.constant([1.0, 0.5]))[1]
    assert ids_of(tf.constant([1.0, 2.0]))[1]


@pytest.mark.parametrize("labels", [np.eye(3), np.eye(3, dtype=np.int64), np.zeros((2, 1, 1))])
def test_one_hot_labels_are_refused(labels):
    with pytest.raises(
        InvalidInput, match=r"shape of labels: .*expected class ids \[batch\] or \[batch, 1\]. Of one-hot"
    ):
        class_ids(labels)


def test_a_type_that_is_no_number():
    with pytest.raises(InvalidInput, match="labels: received 'bool', expected integers, or floats that are whole"):
        class_ids(np.array([True, False]))
