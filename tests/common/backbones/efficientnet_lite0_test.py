"""Tests of EfficientNet-lite0: names, constants, and features equal to timm's where timm is installed."""

import contextlib
import pathlib

import numpy as np
import pytest
import tensorflow as tf

from common.backbones import pretrained_weights
from common.backbones.efficientnet_lite0 import efficientnet_lite0
from common.backbones.pretrained_weights import load_parameters, named_parameters
from common.errors import InvalidInput

keras = tf.keras


@pytest.fixture(scope="module")
def model():
    return efficientnet_lite0()


def test_names_are_timms(model):
    names = named_parameters(model).keys()
    assert (
        len(names) == 49 * 5
    )  # stem, head, one block of two convolutions and fifteen of three; each with a batch norm
    assert {
        "conv_stem.weight",
        "bn1.running_mean",
        "blocks.0.0.conv_dw.weight",
        "blocks.0.0.conv_pw.weight",
        "blocks.0.0.bn2.bias",
        "blocks.5.3.conv_pwl.weight",
        "blocks.6.0.bn3.running_var",
        "conv_head.weight",
        "bn2.weight",
    } <= names


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


def test_other_channels():
    with pytest.raises(InvalidInput, match="input_channels"):
        efficientnet_lite0(input_channels=5)


@pytest.fixture(scope="module")
def oracle():
    """timm's network with random parameters, batch norm's statistics included."""
    torch = pytest.importorskip("torch", reason="PyTorch, the oracle, is not installed")
    library = torch.library.Library("torchvision", "FRAGMENT")
    for name in ("nms", "qnms"):  # timm imports torchvision, which needs them where it does not fit PyTorch
        with contextlib.suppress(RuntimeError):
            library.define(f"{name}(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
    timm = pytest.importorskip("timm", reason="timm, the oracle, is not installed")
    torch.manual_seed(0)
    network = timm.create_model("tf_efficientnet_lite0", pretrained=False).eval()
    generator = torch.Generator().manual_seed(1)
    for layer in network.modules():
        if isinstance(layer, torch.nn.BatchNorm2d):
            for tensor in (layer.weight.data, layer.running_var):
                tensor.uniform_(0.6, 1.4, generator=generator)
            for tensor in (layer.bias.data, layer.running_mean):
                tensor.uniform_(-0.2, 0.2, generator=generator)
    return network


@pytest.mark.parametrize("size", [(64, 96), (75, 101), (227, 227)])
def test_features_equal_timms(oracle, model, size, tmp_path):
    import torch

    np.savez(tmp_path / "parameters.npz", **{name: value.numpy() for name, value in oracle.state_dict().items()})
    result = load_parameters(model, tmp_path / "parameters.npz")
    assert all(name.startswith("classifier.") or name.endswith("num_batches_tracked") for name in result.ignored)
    images = np.random.default_rng(0).uniform(0, 255, (1, *size, 3)).astype(np.float32)
    with torch.no_grad():
        inputs = torch.from_numpy(((images - 127) / 128).transpose(0, 3, 1, 2).copy())
        expected = oracle.forward_features(inputs).numpy().transpose(0, 2, 3, 1)
    features = np.asarray(model(images, training=False))
    assert features.shape == expected.shape
    np.testing.assert_allclose(features, expected, rtol=0, atol=1e-4 * np.abs(expected).max())
