import numpy as np

from common.pooling.delf import DeLFPooling


def twin(features, hidden, hidden_bias, score, score_bias):
    batch, positions, channels = features.shape
    pooled, scores = np.zeros((batch, channels)), np.zeros((batch, positions))
    for image in range(batch):
        for j in range(positions):
            active = [max(hidden[:, k] @ features[image, j] + hidden_bias[k], 0.0) for k in range(hidden.shape[1])]
            scores[image, j] = np.log1p(np.exp(active @ score[:, 0] + score_bias[0]))
            pooled[image] += scores[image, j] * features[image, j] / positions
    return pooled, scores


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
