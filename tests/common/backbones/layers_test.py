import numpy as np
import pytest
import tensorflow as tf

from common.backbones.convolution import batch_normalization, convolution, depthwise_convolution, rectifier
from common.backbones.input_normalization import CAFFE_MEAN_BGR, IMAGENET_MEAN, IMAGENET_STD, InputNormalization
from common.backbones.token_embedding import token_embedding
from common.errors import InvalidInput
from common.training.devices import precision_policy

keras = tf.keras

IMAGES = np.random.default_rng(0).integers(0, 256, (2, 3, 4, 3)).astype(np.uint8)


def test_mean_and_std_are_per_channel_or_one_for_all():
    expected = (IMAGES / 255 - np.array(IMAGENET_MEAN)) / np.array(IMAGENET_STD)
    output = InputNormalization(IMAGENET_MEAN, IMAGENET_STD)(tf.constant(IMAGES))
    np.testing.assert_allclose(output, expected, atol=2e-6)
    output = InputNormalization(mean=0.5, std=0.5)(tf.constant([[[[0.0, 51.0, 127.5, 255.0]]]]))
    np.testing.assert_allclose(output[0, 0, 0], [-1.0, -0.6, 0.0, 1.0], atol=1e-6)
    with pytest.raises(ValueError, match=r"expected 1 channel or 3"):
        InputNormalization(IMAGENET_MEAN)(tf.zeros([1, 2, 2, 4]))


def test_bgr_equals_keras_preprocessing():
    expected = keras.applications.resnet50.preprocess_input(IMAGES.astype(np.float32))
    output = InputNormalization(CAFFE_MEAN_BGR, scale=1.0, channel_order="bgr")(tf.constant(IMAGES))
    np.testing.assert_allclose(output, expected, atol=2e-5)


def test_grey_images_become_three_channels():
    layer = InputNormalization(IMAGENET_MEAN, IMAGENET_STD)
    grey = IMAGES[..., :1]
    np.testing.assert_array_equal(layer(tf.constant(grey)), layer(tf.constant(np.repeat(grey, 3, axis=-1))))
    assert keras.Sequential([keras.Input((None, None, 1)), layer]).output_shape == (None, None, None, 3)


def test_arithmetic_is_in_float32_under_mixed_precision():
    images = tf.constant([[[[200.7, 201.3, 31.03]]]])  # float16 would round the first two to 200.75 and 201.25
    exact = InputNormalization(IMAGENET_MEAN, IMAGENET_STD)(images)
    with precision_policy("mixed_float16"):
        inputs = keras.Input((None, None, 3))
        output = keras.Model(inputs, InputNormalization(IMAGENET_MEAN, IMAGENET_STD)(inputs))(images)
    assert output.dtype == tf.float16
    np.testing.assert_array_equal(output, tf.cast(exact, tf.float16))


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


def test_each_token_is_its_row_of_initial_values_that_fill_the_interval():
    model = token_embedding(num_tokens=4000, dim=2)
    (table,) = model.get_weights()
    assert table.shape == (4000, 2)
    tokens = np.array([[0, 6, 6, 2], [5, 1, 0, 3999]], np.int32)
    np.testing.assert_array_equal(model(tokens), table[tokens])
    np.testing.assert_array_equal(model(tokens.astype(np.int64)), table[tokens])
    assert np.abs(table).max() <= 0.3
    np.testing.assert_allclose([table.min(), table.max(), table.mean(), table.std()], [-0.3, 0.3, 0, 0.173], atol=0.01)
    for settings in ({"num_tokens": 0}, {"num_tokens": 3, "dim": 0}):
        with pytest.raises(InvalidInput, match="greater than 0"):
            token_embedding(**settings)


def test_only_the_tokens_of_the_batch_get_a_gradient():
    model = token_embedding(num_tokens=5)
    with tf.GradientTape() as tape:
        loss = tf.reduce_sum(model(tf.constant([[1, 1, 4]])))
    gradient = tf.convert_to_tensor(tape.gradient(loss, model.trainable_variables)[0])
    np.testing.assert_array_equal(gradient[:, 0], [0, 2, 0, 0, 1])


def test_vectors_stay_in_the_interval_when_they_are_trained():
    model = token_embedding(num_tokens=3, bound=0.2)
    optimizer = keras.optimizers.SGD(1.0)
    table = model.trainable_variables[0]
    before = table.numpy()
    gradient = np.array([[-5, 5], [0, 0], [0.01, 0]], np.float32)
    optimizer.apply_gradients([(tf.constant(gradient), table)])
    np.testing.assert_allclose(table.numpy(), [[0.2, -0.2], before[1], np.clip(before[2] - gradient[2], -0.2, 0.2)])
