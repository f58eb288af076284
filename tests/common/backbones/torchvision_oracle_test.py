"""Converted networks of torchvision give the same features as PyTorch. Skipped where PyTorch is not installed."""

import contextlib

import numpy as np
import pytest
import tensorflow as tf

from common.backbones.convolution import batch_normalization, convolution, rectifier
from common.backbones.input_normalization import IMAGENET_MEAN, IMAGENET_STD, InputNormalization
from common.backbones.mobilenet_v2 import mobilenet_v2
from common.backbones.pretrained_weights import load_parameters
from common.backbones.residual_network import basic_block, residual_stages
from common.backbones.resnet50 import resnet50

keras = tf.keras
torch = pytest.importorskip("torch", reason="PyTorch, the oracle, is not installed")


@pytest.fixture(scope="module")
def torchvision():
    """torchvision's networks; where its compiled part does not fit PyTorch, operators have to be declared before."""
    library = torch.library.Library("torchvision", "FRAGMENT")
    for name in ("nms", "qnms"):
        with contextlib.suppress(RuntimeError):  # torchvision's own library has declared it
            library.define(f"{name}(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
    return pytest.importorskip("torchvision", reason="torchvision, the oracle, is not installed").models


def randomize_statistics(network):
    """Batch norm starts as the identity, which would hide an exchange of its parameters."""
    generator = torch.Generator().manual_seed(1)
    for module in network.modules():
        if isinstance(module, torch.nn.BatchNorm2d):
            for tensor in (module.weight.data, module.running_var):
                tensor.uniform_(0.6, 1.4, generator=generator)
            for tensor in (module.bias.data, module.running_mean):
                tensor.uniform_(-0.2, 0.2, generator=generator)


def converted(network, model, path):
    """`model` with the parameters of `network`, through a file as a user makes it."""
    np.savez(path, **{name: value.numpy() for name, value in network.state_dict().items()})
    result = load_parameters(model, path)
    assert len(result.loaded) == sum(not name.endswith("tracked") for name in network.state_dict()) - 2  # classifier
    return model


def assert_same_features(network_features, model, size):
    """Both networks on the same random images, to 1e-4 of the largest feature."""
    images = np.random.default_rng(0).uniform(0, 255, (2, *size, 3)).astype(np.float32)
    normalized = (images / 255 - np.array(IMAGENET_MEAN)) / np.array(IMAGENET_STD)
    with torch.no_grad():
        inputs = torch.from_numpy(normalized.transpose(0, 3, 1, 2).astype(np.float32))
        expected = network_features(inputs).numpy().transpose(0, 2, 3, 1)
    features = np.asarray(model(images, training=False))
    assert features.shape == expected.shape
    np.testing.assert_allclose(features, expected, rtol=0, atol=1e-4 * np.abs(expected).max())


def without_classifier(network):
    return torch.nn.Sequential(*list(network.children())[:-2])


@pytest.mark.parametrize("randomized", [False, True])
@pytest.mark.parametrize("size", [(96, 64), (75, 101)])
def test_mobilenet_v2(torchvision, tmp_path, size, randomized):
    torch.manual_seed(0)
    network = torchvision.mobilenet_v2(weights=None).eval()
    if randomized:
        randomize_statistics(network)
    assert_same_features(network.features, converted(network, mobilenet_v2(), tmp_path / "parameters.npz"), size)


@pytest.mark.parametrize("randomized", [False, True])
@pytest.mark.parametrize("size", [(75, 101)])
@pytest.mark.slow
def test_resnet50(torchvision, tmp_path, size, randomized):
    torch.manual_seed(0)
    network = torchvision.resnet50(weights=None).eval()
    if randomized:
        randomize_statistics(network)
    model = converted(network, resnet50(layout="torchvision"), tmp_path / "parameters.npz")
    assert_same_features(without_classifier(network), model, size)


def test_basic_blocks(torchvision, tmp_path):
    torch.manual_seed(0)
    network = torchvision.resnet18(weights=None).eval()
    randomize_statistics(network)
    images = keras.Input((None, None, 3))
    x = convolution(InputNormalization(IMAGENET_MEAN, IMAGENET_STD)(images), 64, 7, "conv1", stride=2)
    x = rectifier(batch_normalization(x, "bn1"), "relu")
    x = keras.layers.MaxPooling2D(3, strides=2)(keras.layers.ZeroPadding2D(1)(x))
    x = residual_stages(x, basic_block, (64, 128, 256, 512), (2, 2, 2, 2), (1, 2, 2, 2))
    model = converted(network, keras.Model(images, x), tmp_path / "parameters.npz")
    assert_same_features(without_classifier(network), model, (75, 101))
