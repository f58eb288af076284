import numpy as np
import pytest
import tensorflow as tf
from scipy.spatial.distance import cdist

from common.pooling.optimal_transport import OptimalTransportPooling
from tests.common.ops.sinkhorn_test import multiplicative_sinkhorn


def clip(vectors):
    return vectors / np.maximum(1.0, np.linalg.norm(vectors, axis=-1, keepdims=True))


def twin(tokens, prototypes, smoothing, num_iterations):
    num_prototypes, num_positions, pooled = len(prototypes), tokens.shape[1], []
    masses = np.full(num_prototypes, 1 / num_prototypes), np.full(num_positions, 1 / num_positions)
    for image in tokens:
        plan = multiplicative_sinkhorn(cdist(clip(prototypes), clip(image)), smoothing, num_iterations, *masses)
        pooled.append(np.sqrt(num_prototypes) * plan @ image)
    return np.reshape(pooled, (len(tokens), -1))


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
