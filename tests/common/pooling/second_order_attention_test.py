import numpy as np
import pytest
import tensorflow as tf
from scipy.special import softmax

from common.pooling.generalized_mean import GeneralizedMeanPooling
from common.pooling.second_order_attention import SecondOrderAttentionPooling

EPSILON = 1e-3  # of Keras' batch normalisation


def relu_of_normalized(x, layer, training):
    scale, offset = np.asarray(layer.gamma), np.asarray(layer.beta)
    mean, variance = np.asarray(layer.moving_mean), np.asarray(layer.moving_variance)
    if training:
        mean, variance = x.mean(axis=(0, 1)), x.var(axis=(0, 1))
    return np.maximum(scale * (x - mean) / np.sqrt(variance + EPSILON) + offset, 0.0)


def twin(tokens, layer, training):
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
def test_equals_loops(training, reduction):
    rng = np.random.default_rng(0)
    features = rng.normal(size=(2, 3, 4, 6))
    layer = SecondOrderAttentionPooling(reduction, output_initializer="glorot_uniform", dtype="float64")
    layer.build(features.shape)
    layer.set_weights([weight + 0.5 * np.abs(rng.normal(size=weight.shape)) for weight in layer.get_weights()])
    expected = twin(features.reshape(2, 12, 6), layer, training)
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


def test_size_of_the_thesis_and_of_a_reduction():
    layer = SecondOrderAttentionPooling()
    layer.build((None, 7, 7, 16))
    assert layer.query.units == 16
    narrow = SecondOrderAttentionPooling(32)
    narrow.build((None, 7, 7, 16))
    assert narrow.query.units == 1
