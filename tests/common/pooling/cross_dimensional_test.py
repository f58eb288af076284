import numpy as np
import pytest
import tensorflow as tf

from common.errors import InvalidInput
from common.pooling.cross_dimensional import CrossDimensionalPooling


def twin(features, channel_rate, epsilon):
    batch, positions, channels = features.shape
    pooled = np.zeros((batch, channels))
    for image in range(batch):
        rectified = np.maximum(features[image], 0.0)
        sums = np.array([sum(rectified[j]) for j in range(positions)])
        weights = np.sqrt(sums / np.sqrt(np.sum(sums**2)))
        rates = np.zeros(channels)
        for channel in range(channels):
            for j in range(positions):
                value = rectified[j, channel]
                rates[channel] += (value > 0 if channel_rate == "nonzero" else 1 / (1 + np.exp(-value))) / positions
        for channel in range(channels):
            importance = np.log((channels * epsilon + rates.sum()) / (epsilon + rates[channel]))
            for j in range(positions):
                pooled[image, channel] += importance * weights[j] * rectified[j, channel] / positions
    return pooled


@pytest.mark.parametrize("channel_rate", ["nonzero", "sigmoid"])
@pytest.mark.parametrize("scale", [1e-3, 1.0, 1e3])
def test_equals_loops(channel_rate, scale):
    features = scale * np.random.default_rng(0).normal(size=(2, 3, 4, 5))
    pooled = CrossDimensionalPooling(channel_rate, epsilon=1e-4, dtype="float64")(features)
    np.testing.assert_allclose(pooled, twin(features.reshape(2, 12, 5), channel_rate, 1e-4), rtol=1e-12)


def test_by_hand():
    tokens = np.array([[[3.0, 0.0], [0.0, -1.0], [2.0, 2.0]]])  # sums 3, 0, 4; active shares 2/3, 1/3
    layer = CrossDimensionalPooling(epsilon=1e-12, dtype="float64")
    first = np.log(1.5) * (3 * np.sqrt(3 / 5) + 2 * np.sqrt(4 / 5)) / 3
    second = np.log(3.0) * 2 * np.sqrt(4 / 5) / 3
    np.testing.assert_allclose(layer(tokens), [[first, second]], rtol=1e-9)
    total = np.sqrt(3 / 5) + np.sqrt(4 / 5)
    np.testing.assert_allclose(
        layer.spatial_weights(tokens), [[np.sqrt(3 / 5) / total, 0.0, np.sqrt(4 / 5) / total]], rtol=1e-12
    )


def test_zero_map_pools_to_zero_and_looks_nowhere_in_particular():
    layer = CrossDimensionalPooling()
    zeros = tf.zeros([2, 3, 3, 4])
    assert np.all(layer(zeros) == 0.0)
    np.testing.assert_allclose(layer.spatial_weights(zeros), 1 / 9, rtol=1e-6)


def test_gradient_where_a_position_is_zero():
    tokens = tf.constant([[[3.0, 1.0], [0.0, 0.0], [2.0, 2.0]]])
    layer = CrossDimensionalPooling()
    with tf.GradientTape() as tape:
        tape.watch(tokens)
        total = tf.reduce_sum(layer(tokens))
    gradient = tape.gradient(total, tokens)
    assert np.all(np.isfinite(gradient))
    assert np.all(gradient[0, 1] == 0.0)
    assert np.all(gradient[0, 0] != 0.0)


def test_refuses():
    with pytest.raises(InvalidInput, match="'soft', expected one of nonzero, sigmoid"):
        CrossDimensionalPooling("soft")
    with pytest.raises(InvalidInput, match="epsilon"):
        CrossDimensionalPooling(epsilon=0.0)
