import numpy as np
import pytest
import tensorflow as tf
from scipy.special import softmax

from common.pooling.net_vlad import NetVLADPooling


def twin(tokens, kernel, bias, centers):
    scores = softmax(tokens @ kernel + bias, axis=2)
    pooled = np.einsum("bnk,bnkc->bkc", scores, tokens[:, :, None] - centers)
    pooled /= np.linalg.norm(pooled, axis=2, keepdims=True)
    return pooled.reshape(len(tokens), -1) / np.sqrt(len(centers))


def built(num_clusters, channels, seed=0, dtype="float64"):
    rng = np.random.default_rng(seed)
    layer = NetVLADPooling(num_clusters, dtype=dtype)
    layer.build((None, None, channels))
    weights = [
        rng.normal(size=shape) for shape in ((channels, num_clusters), (num_clusters,), (num_clusters, channels))
    ]
    layer.assignment.set_weights(weights[:2])
    layer.centers.assign(weights[2])
    return layer, weights


@pytest.mark.parametrize("num_clusters", [1, 3, 8])
def test_equals_loops(num_clusters):
    features = np.random.default_rng(1).normal(size=(2, 3, 4, 5))
    layer, weights = built(num_clusters, 5)
    np.testing.assert_allclose(layer(features), twin(features.reshape(2, 12, 5), *weights), rtol=1e-10)


def test_equals_tensorflow_addons():
    reason = "tensorflow-addons is part of the thesis stack (TensorFlow 2.15) alone"
    addons = pytest.importorskip("tensorflow_addons.layers.netvlad", reason=reason)
    tokens = np.random.default_rng(1).normal(size=(4, 12, 5)).astype(np.float32)
    layer, (kernel, bias, centers) = built(3, 5, dtype="float32")
    oracle = addons.NetVLAD(3)
    oracle(tokens)
    oracle.fc.set_weights([kernel, bias])
    oracle.cluster_centers.assign(centers.T[None])
    # tensorflow-addons puts the channels first, and the clusters last
    expected = oracle(tokens).numpy().reshape(4, 5, 3).transpose(0, 2, 1).reshape(4, 15)
    np.testing.assert_allclose(layer(tokens), expected, atol=1e-6)


def test_unit_norm_and_zero_residuals():
    layer, (_, _, centers) = built(2, 3)
    np.testing.assert_allclose(np.linalg.norm(layer(np.ones((1, 4, 3))), axis=1), 1.0, rtol=1e-12)
    alone, (_, _, centers) = built(1, 3)
    tokens = tf.constant(np.tile(centers, (1, 4, 1)))
    with tf.GradientTape() as tape:
        tape.watch(tokens)
        pooled = alone(tokens)
    assert np.all(pooled == 0.0)
    assert np.all(np.isfinite(tape.gradient(pooled, tokens)))


def test_every_position_takes_part_alike():
    layer, _ = built(3, 5)
    weights = layer.spatial_weights(np.random.default_rng(1).normal(size=(2, 12, 5)))
    np.testing.assert_allclose(weights, 1 / 12, rtol=1e-12)
