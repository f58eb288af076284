import numpy as np
import pytest
import tensorflow as tf

from common.backbones import KERAS_APPLICATIONS, keras_backbone
from common.backbones.input_normalization import InputNormalization
from common.backbones.keras_application import NORMALIZATIONS
from common.errors import InvalidInput

keras = tf.keras

# The module of each network whose images are not normalised inside.
PREPROCESSING = {
    "DenseNet": keras.applications.densenet,
    "InceptionR": keras.applications.inception_resnet_v2,
    "InceptionV3": keras.applications.inception_v3,
    "MobileNet": keras.applications.mobilenet,
    "MobileNetV2": keras.applications.mobilenet_v2,
    "NASNet": keras.applications.nasnet,
    "ResNet": keras.applications.resnet,
    "VGG16": keras.applications.vgg16,
    "VGG19": keras.applications.vgg19,
    "Xception": keras.applications.xception,
}
V2_RESNETS = keras.applications.resnet_v2
ONLY_IN_KERAS_2 = ("RegNet", "ResNetRS")


def test_every_network_of_keras_is_there():
    of_keras = {name for name in dir(keras.applications) if name[0].isupper() and not name.startswith(ONLY_IN_KERAS_2)}
    assert set(KERAS_APPLICATIONS) == of_keras
    for name in KERAS_APPLICATIONS:
        assert getattr(keras.applications, name).__name__ == name


@pytest.mark.parametrize("name", KERAS_APPLICATIONS)
def test_images_are_normalised_as_by_keras(name):
    """Where Keras has a function for it, ours is equal; where the network does it, ours changes nothing."""
    images = np.random.default_rng(0).integers(0, 256, (1, 2, 3, 3)).astype(np.float32)
    if name.startswith(("ConvNeXt", "EfficientNet", "MobileNetV3")):
        expected = images
    elif name.startswith("ResNet") and name.endswith("V2"):
        expected = V2_RESNETS.preprocess_input(images.copy())
    else:
        module = PREPROCESSING[max((prefix for prefix in PREPROCESSING if name.startswith(prefix)), key=len)]
        expected = module.preprocess_input(images.copy())
    layer = InputNormalization(**NORMALIZATIONS[KERAS_APPLICATIONS[name]])
    np.testing.assert_allclose(layer(tf.constant(images)), expected, atol=2e-5)
    assert layer(tf.constant(images[..., :1])).shape == (1, 2, 3, 3)  # grey images become three channels


@pytest.mark.parametrize(("name", "image_size"), [("MobileNet", None), ("MobileNet", 49), ("MobileNetV3Small", 64)])
def test_features_are_keras(name, image_size):
    """MobileNetV3 has layers for normalisation; ours must not normalise twice."""
    size = image_size or 64
    oracle = getattr(keras.applications, name)(include_top=False, weights=None, input_shape=(size, size, 3))
    model = keras_backbone(name, image_size=image_size)
    model.set_weights(oracle.get_weights())
    images = np.random.default_rng(0).integers(0, 256, (2, size, size, 3)).astype(np.uint8)
    expected = np.asarray(oracle(images / np.float32(127.5) - 1 if name == "MobileNet" else images.astype(np.float32)))
    features = np.asarray(model(images))
    assert features.shape == expected.shape
    np.testing.assert_allclose(features, expected, rtol=1e-3, atol=1e-4 * np.abs(expected).max())


def test_batch_norm_is_frozen_on_demand():
    live, frozen = (keras_backbone("MobileNet", 1, frozen_batch_norm=frozen) for frozen in (False, True))
    num_norms = sum(isinstance(layer, keras.layers.BatchNormalization) for layer in live.layers)
    assert len(live.trainable_variables) - len(frozen.trainable_variables) == 2 * num_norms > 0
    assert frozen(np.zeros((1, 32, 32, 1))).shape == (1, 1, 1, 1024)


def test_weights_from_a_file_of_keras(tmp_path):
    oracle = keras.applications.MobileNet(include_top=False, weights=None, input_shape=(32, 32, 3))
    path = str(tmp_path / "mobilenet.weights.h5")
    oracle.save_weights(path)
    model = keras_backbone("MobileNet", weights=path)
    for variable, expected in zip(model.get_weights(), oracle.get_weights()):
        np.testing.assert_array_equal(variable, expected)


def test_without_a_connection(monkeypatch):
    def unreachable(**settings):
        assert settings["weights"] == "imagenet"
        raise Exception("URL fetch failure on https://storage.googleapis.com/mobilenet.h5")

    monkeypatch.setattr(keras.applications, "MobileNet", unreachable)
    with pytest.raises(InvalidInput, match=r"a connection to the internet.*https://storage.*without top"):
        keras_backbone("MobileNet", weights="imagenet")
