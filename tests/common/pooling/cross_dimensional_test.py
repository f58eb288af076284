import numpy as np
import pytest

from common.pooling.cross_dimensional import CrossDimensionalPooling


def twin(features, channel_rate, epsilon):
    batch, positions, channels = features.shape
    pooled, shares = np.zeros((batch, channels)), np.zeros((batch, positions))
    for image in range(batch):
        rectified = np.maximum(features[image], 0.0)
        sums = np.array([sum(rectified[j]) for j in range(positions)])
        weights = np.sqrt(sums / np.sqrt(np.sum(sums**2)))
        shares[image] = weights / weights.sum()
        rates = np.zeros(channels)
        for channel in range(channels):
            for j in range(positions):
                value = rectified[j, channel]
                rates[channel] += (value > 0 if channel_rate == "nonzero" else 1 / (1 + np.exp(-value))) / positions
        for channel in range(channels):
            importance = np.log((channels * epsilon + rates.sum()) / (epsilon + rates[channel]))
            for j in range(positions):
                pooled[image, channel] += importance * weights[j] * rectified[j, channel] / positions
    return pooled, shares


@pytest.mark.parametrize("channel_rate", ["nonzero", "sigmoid"])
@pytest.mark.parametrize("scale", [1e-3, 1.0, 1e3])
def test_equals_loops(channel_rate, scale):
    features = scale * np.random.default_rng(0).normal(size=(2, 3, 4, 5))
    layer = CrossDimensionalPooling(channel_rate, epsilon=1e-4, dtype="float64")
    pooled, shares = twin(features.reshape(2, 12, 5), channel_rate, 1e-4)
    np.testing.assert_allclose(layer(features), pooled, rtol=1e-12)
    np.testing.assert_allclose(layer.spatial_weights(features), shares, rtol=1e-12)
