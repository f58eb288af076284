import numpy as np
import pytest
import tensorflow as tf

from common.backbones.input_normalization import CAFFE_MEAN_BGR, IMAGENET_MEAN, IMAGENET_STD, InputNormalization
from common.errors import InvalidInput

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
    policy = keras.mixed_precision.global_policy() if hasattr(keras.mixed_precision, "global_policy") else "float32"
    keras.mixed_precision.set_global_policy("mixed_float16")
    try:
        inputs = keras.Input((None, None, 3))
        output = keras.Model(inputs, InputNormalization(IMAGENET_MEAN, IMAGENET_STD)(inputs))(images)
    finally:
        keras.mixed_precision.set_global_policy(policy)
    assert output.dtype == tf.float16
    np.testing.assert_array_equal(output, tf.cast(exact, tf.float16))


@pytest.mark.parametrize("settings", [{"std": 0.0}, {"std": (0.1, -0.1, 0.1)}, {"channel_order": "gbr"}])
def test_wrong_settings(settings):
    with pytest.raises(InvalidInput):
        InputNormalization(**settings)
