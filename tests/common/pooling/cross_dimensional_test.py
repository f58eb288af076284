import numpy as np
import pytest
from scipy.special import expit

from common.pooling.cross_dimensional import CrossDimensionalPooling


def twin(features, channel_rate, epsilon):
    rectified = np.maximum(features, 0.0)
    sums = rectified.sum(axis=2)
    weights = np.sqrt(sums / np.linalg.norm(sums, axis=1, keepdims=True))
    rates = np.mean(rectified > 0 if channel_rate == "nonzero" else expit(rectified), axis=1)
    importance = np.log((features.shape[2] * epsilon + rates.sum(axis=1, keepdims=True)) / (epsilon + rates))
    pooled = importance * np.mean(weights[..., None] * rectified, axis=1)
    return pooled, weights / weights.sum(axis=1, keepdims=True)


@pytest.mark.parametrize("channel_rate", ["nonzero", "sigmoid"])
@pytest.mark.parametrize("scale", [1e-3, 1.0, 1e3])
def test_equals_loops(channel_rate, scale):
    features = scale * np.random.default_rng(0).normal(size=(2, 3, 4, 5))
    layer = CrossDimensionalPooling(channel_rate, epsilon=1e-4, dtype="float64")
    pooled, shares = twin(features.reshape(2, 12, 5), channel_rate, 1e-4)
    np.testing.assert_allclose(layer(features), pooled, rtol=1e-12)
    np.testing.assert_allclose(layer.spatial_weights(features), shares, rtol=1e-12)
