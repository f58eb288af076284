import numpy as np
import pytest
import tensorflow as tf

from common.errors import InvalidInput
from common.pooling.feature_pooling import FeaturePooling, masked_max, masked_mean


class Positions(FeaturePooling):
    """Returns what `positions_of` gives."""

    def call(self, features, mask=None, training=None):
        return self.positions_of(features, mask)


def test_positions_run_row_by_row_in_both_layouts():
    maps = np.arange(2 * 3 * 4 * 5, dtype=np.float32).reshape(2, 3, 4, 5)
    expected = maps.reshape(2, 12, 5)
    np.testing.assert_array_equal(Positions()(maps)[0], expected)
    np.testing.assert_array_equal(Positions(data_format="channels_first")(maps.transpose(0, 3, 1, 2))[0], expected)
    np.testing.assert_array_equal(Positions()(expected)[0], expected)
    np.testing.assert_array_equal(Positions(data_format="channels_first")(expected)[0], expected)


def test_masks_are_flattened_like_features():
    mask = np.zeros((2, 3, 4), bool)
    mask[1, 2, 1] = True
    positions, flat = Positions()(np.zeros((2, 3, 4, 5), np.float32), mask=mask)
    assert positions.shape == (2, 12, 5)
    assert np.argwhere(flat.numpy()).tolist() == [[1, 9]]


def test_a_static_size_stays_static():
    @tf.function(input_signature=[tf.TensorSpec([None, 7, 7, 5])])
    def flatten(maps):
        positions = Positions().positions_of(maps)[0]
        assert positions.shape[1:] == (49, 5)
        return positions

    assert flatten(tf.zeros([2, 7, 7, 5])).shape == (2, 49, 5)


def test_masked_reductions_ignore_what_is_masked():
    features = np.array([[[1.0], [5.0], [np.nan]], [[-3.0], [np.nan], [np.nan]], [[np.nan]] * 3])
    mask = np.isfinite(features[..., 0])
    np.testing.assert_array_equal(masked_mean(features, tf.constant(mask)), [[3.0], [-3.0], [0.0]])
    np.testing.assert_array_equal(masked_max(tf.constant(features), tf.constant(mask)), [[5.0], [-3.0], [0.0]])


def test_the_interface_cannot_be_made_and_bad_shapes_are_named():
    with pytest.raises(TypeError):
        FeaturePooling()
    with pytest.raises(InvalidInput, match=r"input shape of Positions.*\[batch, positions, channels\]"):
        Positions().num_channels((4, 5))
    with pytest.raises(InvalidInput, match="known number of channels"):
        Positions().num_channels((4, 5, None))
    with pytest.raises(InvalidInput, match="channels_last, channels_first"):
        Positions(data_format="NHWC")
