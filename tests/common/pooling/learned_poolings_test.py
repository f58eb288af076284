"""Poolings with clusters, prototypes or attention between positions, recomputed in NumPy."""

import numpy as np
import pytest
import tensorflow as tf
from scipy.spatial.distance import cdist
from scipy.special import expit, softmax

from common.pooling.generalized_mean import GeneralizedMeanPooling
from common.pooling.net_vlad import NetVLADPooling
from common.pooling.optimal_transport import OptimalTransportPooling
from common.pooling.second_order import SecondOrderPooling
from common.pooling.second_order_attention import SecondOrderAttentionPooling
from tests.common.ops.pairs_test import multiplicative_sinkhorn


def net_vlad_twin(tokens, kernel, bias, centers):
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
def test_net_vlad_equals_loops(num_clusters):
    features = np.random.default_rng(1).normal(size=(2, 3, 4, 5))
    layer, weights = built(num_clusters, 5)
    np.testing.assert_allclose(layer(features), net_vlad_twin(features.reshape(2, 12, 5), *weights), rtol=1e-10)


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


def clip(vectors):
    return vectors / np.maximum(1.0, np.linalg.norm(vectors, axis=-1, keepdims=True))


def optimal_transport_twin(tokens, prototypes, smoothing, num_iterations):
    num_prototypes, num_positions, pooled = len(prototypes), tokens.shape[1], []
    masses = np.full(num_prototypes, 1 / num_prototypes), np.full(num_positions, 1 / num_positions)
    for image in tokens:
        plan = multiplicative_sinkhorn(cdist(clip(prototypes), clip(image)), smoothing, num_iterations, *masses)
        pooled.append(np.sqrt(num_prototypes) * plan @ image)
    return np.reshape(pooled, (len(tokens), -1))


@pytest.mark.parametrize(("num_prototypes", "smoothing", "num_iterations"), [(8, 2.0, 10), (1, 5.0, 1), (3, 0.5, 2)])
def test_optimal_transport_equals_loops(num_prototypes, smoothing, num_iterations):
    features = np.random.default_rng(0).normal(size=(2, 3, 4, 5))
    layer = OptimalTransportPooling(num_prototypes, smoothing=smoothing, num_iterations=num_iterations, dtype="float64")
    pooled = layer(features)
    expected = optimal_transport_twin(
        features.reshape(2, 12, 5), np.asarray(layer.prototypes), smoothing, num_iterations
    )
    np.testing.assert_allclose(pooled, expected, rtol=1e-9)


def test_parts_add_up_to_the_average():
    """Balanced transport leaves no position out, however far it is from the prototypes."""
    features = np.random.default_rng(0).normal(size=(2, 12, 5))
    features[:, 0] += 100.0
    layer = OptimalTransportPooling(4, dtype="float64")
    parts = np.reshape(layer(features), (2, 4, 5)) / 2.0  # sqrt(4)
    np.testing.assert_allclose(parts.sum(axis=1), features.mean(axis=1), rtol=1e-9)
    np.testing.assert_allclose(layer.spatial_weights(features), 1 / 12, rtol=1e-9)


EPSILON = 1e-3  # of Keras' batch normalisation


def normalized(x, layer, training):
    scale, offset = np.asarray(layer.gamma), np.asarray(layer.beta)
    mean, variance = np.asarray(layer.moving_mean), np.asarray(layer.moving_variance)
    if training:
        mean, variance = x.mean(axis=(0, 1)), x.var(axis=(0, 1))
    return scale * (x - mean) / np.sqrt(variance + EPSILON) + offset


def rows_of_covariances(tokens, branch, of_positions, training):
    """`[batch, positions, channels]` -> `[batch, 4 * rows]`."""
    reduced = normalized(np.maximum(tokens, 0.0) @ branch.reduction.get_weights()[0], branch.normalization, training)
    reduced = np.maximum(reduced, 0.0)
    covariances = np.stack([np.cov(image, rowvar=of_positions, bias=True) for image in reduced])
    covariances = normalized(covariances, branch.row_normalization, training)
    kernel, bias = np.asarray(branch.kernel), np.asarray(branch.bias)
    outputs = np.einsum("brp,rpk->brk", covariances, kernel) + bias
    return outputs.reshape(len(tokens), -1)


def second_order_twin(tokens, layer, training):
    def gate(x, dense):
        kernel, bias = dense.get_weights()
        return expit(x @ kernel + bias)

    channels = gate(rows_of_covariances(tokens, layer.channel_branch, False, training), layer.channel_gate)
    rows = rows_of_covariances(tokens, layer.position_branch, True, training)
    positions = gate(np.maximum(rows, 0.0), layer.position_gate)
    return np.maximum(channels[:, None] * tokens, positions[..., None] * tokens).mean(axis=1)


@pytest.mark.parametrize("training", [False, True])
def test_second_order_equals_loops(training):
    rng = np.random.default_rng(0)
    features = rng.normal(size=(3, 2, 3, 5))
    layer = SecondOrderPooling(4, dtype="float64")
    layer.build(features.shape)
    layer.set_weights([weight + 0.2 * np.abs(rng.normal(size=weight.shape)) for weight in layer.get_weights()])
    expected = second_order_twin(features.reshape(3, 6, 5), layer, training)
    np.testing.assert_allclose(layer(features, training=training), expected, rtol=1e-9)


def test_training_updates_statistics():
    features = tf.random.stateless_normal([4, 3, 3, 5], [0, 1])
    layer = SecondOrderPooling(4)
    layer(features, training=False)
    before = [np.array(weight) for weight in layer.non_trainable_weights]
    assert len(before) == 8
    layer(features, training=True)
    assert all(np.any(old != new) for old, new in zip(before, layer.non_trainable_weights))


def relu_of_normalized(x, layer, training):
    scale, offset = np.asarray(layer.gamma), np.asarray(layer.beta)
    mean, variance = np.asarray(layer.moving_mean), np.asarray(layer.moving_variance)
    if training:
        mean, variance = x.mean(axis=(0, 1)), x.var(axis=(0, 1))
    return np.maximum(scale * (x - mean) / np.sqrt(variance + EPSILON) + offset, 0.0)


def second_order_attention_twin(tokens, layer, training):
    def linear(x, dense):
        kernel, bias = dense.get_weights()
        return x @ kernel + bias

    queries = relu_of_normalized(linear(tokens, layer.query), layer.query_normalization, training)
    keys = relu_of_normalized(linear(tokens, layer.key), layer.key_normalization, training)
    values, power = linear(tokens, layer.value), float(layer.generalized_mean.power)
    weights = softmax(queries @ keys.transpose(0, 2, 1) / np.sqrt(keys.shape[2]), axis=2)
    enriched = tokens + linear(weights @ values, layer.attended)
    return np.mean(np.maximum(enriched, 1e-6) ** power, axis=1) ** (1 / power)


@pytest.mark.parametrize("training", [False, True])
@pytest.mark.parametrize("reduction", [1, 2])
def test_second_order_attention_equals_loops(training, reduction):
    rng = np.random.default_rng(0)
    features = rng.normal(size=(2, 3, 4, 6))
    layer = SecondOrderAttentionPooling(reduction, output_initializer="glorot_uniform", dtype="float64")
    layer.build(features.shape)
    layer.set_weights([weight + 0.5 * np.abs(rng.normal(size=weight.shape)) for weight in layer.get_weights()])
    expected = second_order_attention_twin(features.reshape(2, 12, 6), layer, training)
    np.testing.assert_allclose(layer(features, training=training), expected, rtol=1e-9)


def test_starts_as_the_generalised_mean():
    features = np.random.default_rng(0).normal(size=(2, 3, 4, 6)).astype(np.float32)
    expected = GeneralizedMeanPooling(3.0)(features)
    np.testing.assert_allclose(SecondOrderAttentionPooling()(features), expected, rtol=1e-6)


def test_training_moves_statistics_of_the_valid_positions_alone():
    tokens = tf.constant(np.random.default_rng(0).normal(size=(2, 8, 3)), tf.float32)
    mask = tf.constant([[True] * 5 + [False] * 3] * 2)
    layer = SecondOrderAttentionPooling()
    layer(tf.where(mask[..., None], tokens, 1e6), mask=mask, training=True)
    for branch, normalization in ((layer.query, layer.query_normalization), (layer.key, layer.key_normalization)):
        moved = normalization.moving_mean
        assert np.any(moved != 0.0)
        np.testing.assert_allclose(moved, 0.01 * np.mean(tokens[:, :5] @ branch.kernel, axis=(0, 1)), atol=1e-6)
