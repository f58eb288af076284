import numpy as np
import tensorflow as tf

from common.pooling.position_counts import num_positions, static_num_positions


def test_counts_by_hand():
    features = tf.zeros([2, 3, 5])
    np.testing.assert_array_equal(num_positions(features), [[3.0]])
    mask = tf.constant([[True, True, False], [False, False, False]])
    np.testing.assert_array_equal(num_positions(features, mask), [[2.0], [0.0]])


def test_shapes():
    assert static_num_positions((None, 4, 6, 5), "channels_last") == 24
    assert static_num_positions((None, 4, 6, 5), "channels_first") == 30
    assert static_num_positions((None, 7, 5), "channels_first") == 7
    assert static_num_positions((None, None, 6, 5), "channels_last") is None
