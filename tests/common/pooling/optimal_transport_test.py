import numpy as np
import pytest
import tensorflow as tf

from common.pooling.optimal_transport import OptimalTransportPooling


def clip(vector):
    return vector / max(1.0, np.linalg.norm(vector))


def twin(tokens, prototypes, smoothing, num_iterations):
    """Sinkhorn in its multiplicative form."""
    batch, positions, channels = tokens.shape
    num_prototypes = len(prototypes)
    pooled = np.zeros((batch, num_prototypes, channels))
    for image in range(batch):
        kernel = np.zeros((num_prototypes, positions))
        for i in range(num_prototypes):
            for j in range(positions):
                kernel[i, j] = np.exp(-smoothing * np.linalg.norm(clip(prototypes[i]) - clip(tokens[image, j])))
        rows = np.ones(num_prototypes)
        for _ in range(num_iterations):
            columns = 1 / positions / (rows @ kernel)
            rows = 1 / num_prototypes / (kernel @ columns)
        columns = 1 / positions / (rows @ kernel)
        for i in range(num_prototypes):
            for j in range(positions):
                pooled[image, i] += np.sqrt(num_prototypes) * rows[i] * kernel[i, j] * columns[j] * tokens[image, j]
    return pooled.reshape(batch, -1)


@pytest.mark.parametrize(("num_prototypes", "smoothing", "num_iterations"), [(8, 2.0, 10), (1, 5.0, 1), (3, 0.5, 2)])
def test_equals_loops(num_prototypes, smoothing, num_iterations):
    features = np.random.default_rng(0).normal(size=(2, 3, 4, 5))
    layer = OptimalTransportPooling(num_prototypes, smoothing=smoothing, num_iterations=num_iterations, dtype="float64")
    pooled = layer(features)
    expected = twin(features.reshape(2, 12, 5), np.asarray(layer.prototypes), smoothing, num_iterations)
    np.testing.assert_allclose(pooled, expected, rtol=1e-9)


def test_prototypes_can_be_given():
    vectors = np.random.default_rng(0).normal(size=(3, 5))
    layer = OptimalTransportPooling(3, prototype_initializer=tf.keras.initializers.Constant(vectors), dtype="float64")
    layer.build((None, 4, 5))
    np.testing.assert_allclose(layer.prototypes, vectors)


def test_parts_add_up_to_the_average():
    """Balanced transport leaves no position out, however far it is from the prototypes."""
    features = np.random.default_rng(0).normal(size=(2, 12, 5))
    features[:, 0] += 100.0
    layer = OptimalTransportPooling(4, dtype="float64")
    parts = np.reshape(layer(features), (2, 4, 5)) / 2.0  # sqrt(4)
    np.testing.assert_allclose(parts.sum(axis=1), features.mean(axis=1), rtol=1e-9)
    np.testing.assert_allclose(layer.spatial_weights(features), 1 / 12, rtol=1e-9)
