import numpy as np

from common.pooling.delf import DeLFPooling


def twin(features, hidden, hidden_bias, score, score_bias):
    active = np.maximum(features @ hidden + hidden_bias, 0.0)
    scores = np.log1p(np.exp(active @ score + score_bias))
    return np.mean(scores * features, axis=1), scores[..., 0]


def test_equals_loops():
    rng = np.random.default_rng(0)
    features = rng.normal(size=(2, 3, 4, 5))
    layer = DeLFPooling(6, dtype="float64")
    layer.build((None, 3, 4, 5))
    weights = [rng.normal(size=weight.shape) for weight in layer.get_weights()]
    layer.set_weights(weights)
    pooled, scores = twin(features.reshape(2, 12, 5), *weights)
    np.testing.assert_allclose(layer(features), pooled, rtol=1e-12)
    np.testing.assert_allclose(layer.spatial_weights(features), scores / scores.sum(axis=1, keepdims=True), rtol=1e-12)
