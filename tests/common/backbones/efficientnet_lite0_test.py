"""Names, constants and packaged weights of EfficientNet-lite0; `torch_oracles_test` compares its features."""

import pathlib

import numpy as np
import pytest
import tensorflow as tf

from common.backbones import pretrained_weights
from common.backbones.efficientnet_lite0 import efficientnet_lite0

keras = tf.keras


@pytest.fixture(scope="module")
def model():
    return efficientnet_lite0()


def test_constants_are_the_authors(model):
    norms = [layer for layer in model.layers if isinstance(layer, keras.layers.BatchNormalization)]
    assert {(layer.epsilon, layer.momentum) for layer in norms} == {(1e-3, 0.99)}
    assert {float(layer.max_value) for layer in model.layers if isinstance(layer, keras.layers.ReLU)} == {6.0}
    image = tf.constant([[[[127.0, 255.0, 0.0]]]])
    np.testing.assert_allclose(model.get_layer("input_normalization")(image), [[[[0, 1, -127 / 128]]]], atol=1e-6)


def test_imagenet_weights_are_in_the_package():
    """A plain loop over the stem: its convolution, batch norm and ReLU6 at one place of a random image."""
    model = efficientnet_lite0(weights="imagenet")
    folder = pathlib.Path(pretrained_weights.__file__).parent / "imagenet"
    with np.load(folder / "efficientnet_lite0.npz") as file:
        kernel, (gamma, beta, mean, variance) = (
            file["conv_stem.weight"].astype(np.float64),
            (file[f"bn1.{name}"] for name in ("weight", "bias", "running_mean", "running_var")),
        )
    image = np.random.default_rng(0).integers(0, 256, (1, 8, 8, 3)).astype(np.float32)
    stem = keras.Model(model.input, model.get_layer("bn1.act").output)
    patch = ((image[0, 2:5, 4:7] - 127) / 128).transpose(2, 0, 1)  # "same" padding of an even side: none before it
    value = np.array([np.sum(patch * filters) for filters in kernel])
    expected = np.clip((value - mean) / np.sqrt(variance + 1e-3) * gamma + beta, 0, 6)
    np.testing.assert_allclose(stem(image)[0, 1, 2], expected, atol=1e-4)
    assert (folder / "LICENSE").exists()
    assert (folder / "NOTICE").exists()
