import numpy as np
import pytest
import tensorflow as tf

from common.backbones.convolution import batch_normalization, convolution, depthwise_convolution, rectifier

keras = tf.keras


@pytest.mark.parametrize("size", [(7, 8), (6, 5)])
@pytest.mark.parametrize(("kernel_size", "stride"), [(1, 1), (1, 2), (3, 1), (3, 2), (7, 2)])
def test_convolutions_have_symmetric_zero_padding(kernel_size, stride, size):
    images = np.random.default_rng(1).normal(size=(2, *size, 3)).astype(np.float32)
    inputs = keras.Input((None, None, 3))
    model = keras.Model(inputs, convolution(inputs, 4, kernel_size, "conv", stride=stride))
    margins = [kernel_size // 2] * 2
    padding = [[0, 0], margins, margins, [0, 0]]
    expected = tf.nn.conv2d(images, *model.get_weights(), stride, padding)
    np.testing.assert_allclose(model(images), expected, atol=1e-5)
    model = keras.Model(inputs, depthwise_convolution(inputs, kernel_size, "conv", stride=stride))
    expected = tf.nn.depthwise_conv2d(images, *model.get_weights(), (1, stride, stride, 1), padding)
    np.testing.assert_allclose(model(images), expected, atol=1e-5)


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


def test_the_constants_of_pytorch_and_a_rectifier_clipped_on_both_sides():
    inputs = keras.Input((None, None, 2))
    layer = keras.Model(inputs, batch_normalization(inputs, "bn")).layers[-1]
    assert (layer.momentum, layer.epsilon) == (0.9, 1e-5)
    model = keras.Model(inputs, rectifier(inputs, "relu", max_value=6.0))
    np.testing.assert_array_equal(model(np.array([[[[-1.0, 2.0], [9.0, 0.0]]]])), [[[[0.0, 2.0], [6.0, 0.0]]]])
