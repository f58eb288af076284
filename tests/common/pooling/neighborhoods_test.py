import numpy as np
import pytest
import tensorflow as tf

from common.errors import InvalidInput
from common.pooling.neighborhoods import as_maps, as_positions, check_has_neighborhoods, check_window


def test_maps_and_positions_are_inverse():
    values = tf.reshape(tf.range(24.0), [2, 6, 2])
    maps = as_maps(values, tf.zeros([2, 2, 3, 5]), "channels_last")
    np.testing.assert_array_equal(maps, np.reshape(values, (2, 2, 3, 2)))
    np.testing.assert_array_equal(as_positions(maps), values)
    np.testing.assert_array_equal(as_maps(values, tf.zeros([2, 5, 2, 3]), "channels_first"), maps)
    assert as_maps(values, tf.zeros([2, 6, 5]), "channels_last").shape == (2, 6, 1, 2)


@tf.function(input_signature=[tf.TensorSpec([None, None, 2]), tf.TensorSpec([None, None, None, 5])])
def as_maps_of_unknown_size(values, features):
    return as_maps(values, features, "channels_last")


def test_unknown_sizes():
    values = tf.reshape(tf.range(24.0), [2, 6, 2])
    maps = as_maps_of_unknown_size(values, tf.zeros([2, 3, 2, 5]))
    np.testing.assert_array_equal(maps, np.reshape(values, (2, 3, 2, 2)))


@pytest.mark.parametrize("size", [0, 2, -1, 1.5])
def test_window_is_odd(size):
    with pytest.raises(InvalidInput, match="width: received .*, expected an odd integer"):
        check_window("width", size)


def test_tokens_only_with_a_window_of_one():
    check_has_neighborhoods((None, 4, 5), "width", 1)
    check_has_neighborhoods((None, 2, 2, 5), "width", 3)
    with pytest.raises(InvalidInput, match="use width=1"):
        check_has_neighborhoods((None, 4, 5), "width", 3)
