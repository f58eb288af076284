import numpy as np
import pytest
import tensorflow as tf

from common.errors import InvalidInput
from common.pooling.feature_pooling import FeaturePooling, masked_max, masked_mean
from common.pooling.neighborhoods import as_maps, as_positions
from common.pooling.position_counts import static_num_positions
from common.pooling.weighted_pooling import shares


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


def test_shapes():
    assert static_num_positions((None, 4, 6, 5), "channels_last") == 24
    assert static_num_positions((None, 4, 6, 5), "channels_first") == 30
    assert static_num_positions((None, 7, 5), "channels_first") == 7
    assert static_num_positions((None, None, 6, 5), "channels_last") is None


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


def test_shares_by_hand():
    weights = tf.constant([[1.0, 3.0, 0.0], [0.0, 0.0, 0.0]])
    np.testing.assert_allclose(shares(weights), [[0.25, 0.75, 0.0], [1 / 3, 1 / 3, 1 / 3]], rtol=1e-6)
    mask = tf.constant([[True, False, True], [False, True, True]])
    np.testing.assert_allclose(shares(weights, mask), [[1.0, 0.0, 0.0], [0.0, 0.5, 0.5]], rtol=1e-6)
    assert np.all(shares(weights, tf.zeros_like(mask)) == 0.0)


@pytest.mark.parametrize("scale", [1e-37, 1e-30, 1e38])
def test_shares_of_tiny_and_huge_weights(scale):
    weights = tf.constant([[scale, 3 * scale]], tf.float32)
    np.testing.assert_allclose(shares(weights), [[0.25, 0.75]], rtol=1e-5)
