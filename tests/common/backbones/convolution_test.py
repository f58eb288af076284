"""Tests of the convolutions' padding and of freezing batch normalisation."""

import numpy as np
import pytest
import tensorflow as tf

from common.backbones.convolution import (
    batch_normalization,
    convolution,
    depthwise_convolution,
    freeze_batch_norm,
    rectifier,
)

keras = tf.keras


def loop_convolution(images, kernel, stride):
    """Cross-correlation with symmetric zero padding, in loops; kernel [side, side, in, out]."""
    side = kernel.shape[0]
    margin = side // 2
    padded = np.pad(images, ((0, 0), (margin, margin), (margin, margin), (0, 0)))
    height, width = -(-images.shape[1] // stride), -(-images.shape[2] // stride)
    output = np.zeros((images.shape[0], height, width, kernel.shape[3]))
    for row in range(height):
        for column in range(width):
            window = padded[:, row * stride : row * stride + side, column * stride : column * stride + side]
            output[:, row, column] = np.einsum("bijc,ijcd->bd", window, kernel)
    return output


@pytest.mark.parametrize("size", [(7, 8), (6, 5)])
@pytest.mark.parametrize(("kernel_size", "stride"), [(1, 1), (1, 2), (3, 1), (3, 2), (7, 2)])
def test_convolution_equals_loops(kernel_size, stride, size):
    images = np.random.default_rng(1).normal(size=(2, *size, 3)).astype(np.float32)
    inputs = keras.Input((None, None, 3))
    model = keras.Model(inputs, convolution(inputs, 4, kernel_size, "conv", stride=stride))
    (kernel,) = model.get_weights()
    np.testing.assert_allclose(model(images), loop_convolution(images, kernel, stride), atol=1e-5)


@pytest.mark.parametrize("stride", [1, 2])
def test_depthwise_convolution_equals_loops(stride):
    images = np.random.default_rng(2).normal(size=(2, 6, 7, 3)).astype(np.float32)
    inputs = keras.Input((None, None, 3))
    model = keras.Model(inputs, depthwise_convolution(inputs, 3, "conv", stride=stride))
    (kernel,) = model.get_weights()
    output = model(images)
    for channel in range(3):
        one = slice(channel, channel + 1)
        expected = loop_convolution(images[..., one], kernel[:, :, one], stride)
        np.testing.assert_allclose(output[..., one], expected, atol=1e-5)


@pytest.mark.parametrize("size", [(7, 8), (6, 5)])
def test_the_padding_of_tensorflow_and_a_bias(size):
    images = np.random.default_rng(1).normal(size=(2, *size, 3)).astype(np.float32)
    inputs = keras.Input((None, None, 3))
    settings = {"stride": 2, "padding": "same"}
    model = keras.Model(inputs, convolution(inputs, 4, 3, "conv", use_bias=True, **settings))
    kernel, _ = model.get_weights()
    model.set_weights([kernel, np.arange(4.0)])
    expected = tf.nn.conv2d(images, kernel, 2, "SAME") + np.arange(4, dtype=np.float32)
    np.testing.assert_allclose(model(images), expected, atol=1e-5)
    model = keras.Model(inputs, depthwise_convolution(inputs, 5, "conv", **settings))
    expected = tf.nn.depthwise_conv2d(images, model.get_weights()[0], (1, 2, 2, 1), "SAME")
    np.testing.assert_allclose(model(images), expected, atol=1e-5)


def test_rectifier_clips_on_both_sides():
    inputs = keras.Input((3,))
    model = keras.Model(inputs, rectifier(inputs, "relu", max_value=6.0))
    np.testing.assert_array_equal(model(np.array([[-1.0, 2.0, 9.0]])), [[0.0, 2.0, 6.0]])


def test_batch_normalisation_has_the_constants_of_pytorch():
    inputs = keras.Input((None, None, 2))
    layer = keras.Model(inputs, batch_normalization(inputs, "bn")).layers[-1]
    assert (layer.momentum, layer.epsilon) == (0.9, 1e-5)


def small_network():
    inputs = keras.Input((None, None, 2))
    return keras.Model(inputs, batch_normalization(convolution(inputs, 3, 3, "conv"), "bn"))


def train(model, images, steps=2):
    """Trains a few steps; returns each weight's largest change."""
    before = model.get_weights()
    optimizer = keras.optimizers.SGD(0.1)
    for _ in range(steps):
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(tf.square(model(images, training=True) - images[..., :1]))
        optimizer.apply_gradients(zip(tape.gradient(loss, model.trainable_variables), model.trainable_variables))
    return [np.abs(new - old).max() for new, old in zip(model.get_weights(), before)]


def test_frozen_batch_norm_neither_trains_nor_counts():
    images = np.random.default_rng(3).normal(2.0, 3.0, size=(4, 5, 5, 2)).astype(np.float32)
    live = small_network()
    assert all(change > 1e-4 for change in train(live, images))
    frozen = freeze_batch_norm(small_network())
    assert len(frozen.trainable_variables) == 1
    kernel_before = frozen.layers[1].get_weights()[0]
    train(frozen, images)
    assert np.abs(frozen.layers[1].get_weights()[0] - kernel_before).max() > 1e-4
    for new, initial in zip(frozen.layers[2].get_weights(), (1.0, 0.0, 0.0, 1.0)):  # gamma, beta, mean, variance
        np.testing.assert_array_equal(new, np.full(3, initial))
    np.testing.assert_array_equal(frozen(images, training=True), frozen(images, training=False))


def test_freezing_again_after_the_model_became_trainable():
    model = freeze_batch_norm(small_network())
    model.trainable = False
    model.trainable = True
    assert len(model.trainable_variables) == 3
    assert len(freeze_batch_norm(model).trainable_variables) == 1
