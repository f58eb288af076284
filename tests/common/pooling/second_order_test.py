import numpy as np
import pytest
import tensorflow as tf
from scipy.special import expit

from common.pooling.second_order import SecondOrderPooling

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


def twin(tokens, layer, training):
    def gate(x, dense):
        kernel, bias = dense.get_weights()
        return expit(x @ kernel + bias)

    channels = gate(rows_of_covariances(tokens, layer.channel_branch, False, training), layer.channel_gate)
    rows = rows_of_covariances(tokens, layer.position_branch, True, training)
    positions = gate(np.maximum(rows, 0.0), layer.position_gate)
    return np.maximum(channels[:, None] * tokens, positions[..., None] * tokens).mean(axis=1)


@pytest.mark.parametrize("training", [False, True])
def test_equals_loops(training):
    rng = np.random.default_rng(0)
    features = rng.normal(size=(3, 2, 3, 5))
    layer = SecondOrderPooling(4, dtype="float64")
    layer.build(features.shape)
    layer.set_weights([weight + 0.2 * np.abs(rng.normal(size=weight.shape)) for weight in layer.get_weights()])
    expected = twin(features.reshape(3, 6, 5), layer, training)
    np.testing.assert_allclose(layer(features, training=training), expected, rtol=1e-9)


def test_training_updates_statistics():
    features = tf.random.stateless_normal([4, 3, 3, 5], [0, 1])
    layer = SecondOrderPooling(4)
    layer(features, training=False)
    before = [np.array(weight) for weight in layer.non_trainable_weights]
    assert len(before) == 8
    layer(features, training=True)
    assert all(np.any(old != new) for old, new in zip(before, layer.non_trainable_weights))
