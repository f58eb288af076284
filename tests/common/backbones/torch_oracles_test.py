"""Converted networks give PyTorch's features to 1e-4 of the largest. Skipped where PyTorch is not installed."""

import importlib.util
from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf

from common.backbones import bn_inception, efficientnet_lite0, mobilenet_v2, resnet50
from common.backbones.convolution import batch_normalization, convolution, rectifier
from common.backbones.input_normalization import IMAGENET_MEAN, IMAGENET_STD, InputNormalization
from common.backbones.pretrained_weights import load_parameters
from common.backbones.residual_network import basic_block, residual_stages

keras = tf.keras


def of_torchvision(name):
    return lambda request: getattr(request.getfixturevalue("torchvision"), name)(weights=None)


def of_timm(name):
    return lambda request: request.getfixturevalue("timm").create_model(name, pretrained=False)


def of_pretrainedmodels(request):
    """Only its own file is read: the package imports torchvision, which need not fit the PyTorch at hand."""
    package = importlib.util.find_spec("pretrainedmodels")
    if package is None:
        pytest.skip("pretrainedmodels, the oracle, is not installed")
    path = Path(package.origin).parent / "models" / "bninception.py"
    spec = importlib.util.spec_from_file_location("bninception_oracle", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.bninception(pretrained=None)


def resnet18():
    images = keras.Input((None, None, 3))
    x = convolution(InputNormalization(IMAGENET_MEAN, IMAGENET_STD)(images), 64, 7, "conv1", stride=2)
    x = rectifier(batch_normalization(x, "bn1"), "relu")
    x = keras.layers.MaxPooling2D(3, strides=2)(keras.layers.ZeroPadding2D(1)(x))
    return keras.Model(images, residual_stages(x, basic_block, (64, 128, 256, 512), (2, 2, 2, 2), (1, 2, 2, 2)))


def as_torchvision(images):
    return (images / 255 - np.array(IMAGENET_MEAN)) / np.array(IMAGENET_STD)


# The oracle, its features, our network, and how the oracle's images are normalised.
NETWORKS = {
    "mobilenet_v2": (of_torchvision("mobilenet_v2"), "features", mobilenet_v2, as_torchvision),
    "resnet50": (of_torchvision("resnet50"), None, lambda: resnet50(layout="torchvision"), as_torchvision),
    "resnet18": (of_torchvision("resnet18"), None, resnet18, as_torchvision),
    "efficientnet_lite0": (
        *(of_timm("tf_efficientnet_lite0"), "forward_features", efficientnet_lite0),
        lambda images: (images - 127) / 128,
    ),
    "bn_inception": (
        *(of_pretrainedmodels, "features", bn_inception),
        lambda images: images[..., ::-1] - np.float32([104, 117, 128]),
    ),
}


@pytest.fixture(scope="module", params=NETWORKS)
def pair(request, torch, tmp_path_factory):
    """Features by PyTorch of images in 0..255, and our network with the same parameters, read from a file."""
    make, features, ours, normalize = NETWORKS[request.param]
    network, generator = make(request).eval(), torch.Generator().manual_seed(1)
    for module in network.modules():  # batch norm starts as the identity, which would hide an exchange of parameters
        if isinstance(module, torch.nn.BatchNorm2d):
            for tensor in (module.weight.data, module.running_var):
                tensor.uniform_(0.6, 1.4, generator=generator)
            for tensor in (module.bias.data, module.running_mean):
                tensor.uniform_(-0.2, 0.2, generator=generator)
    path, model = tmp_path_factory.mktemp("network") / "parameters.npz", ours()
    np.savez(path, **{name: value.numpy() for name, value in network.state_dict().items()})
    learnt = [name for name in network.state_dict() if not name.endswith("num_batches_tracked")]
    assert len(load_parameters(model, path).loaded) == len(learnt) - 2  # the classifier
    of_torch = getattr(network, features) if features else torch.nn.Sequential(*list(network.children())[:-2])

    def expected(images):
        with torch.no_grad():
            inputs = torch.from_numpy(normalize(images).transpose(0, 3, 1, 2).astype(np.float32))
            return of_torch(inputs).numpy().transpose(0, 2, 3, 1)

    return expected, model


@pytest.mark.slow
@pytest.mark.parametrize("size", [(64, 96), (31, 70), (66, 127), (227, 224)])
def test_features_equal_pytorchs(pair, size):
    of_torch, model = pair
    images = np.random.default_rng(0).uniform(0, 255, (2, *size, 3)).astype(np.float32)
    expected, features = of_torch(images), np.asarray(model(images, training=False))
    assert features.shape == expected.shape
    assert np.abs(expected).max() > 0.1
    np.testing.assert_allclose(features, expected, rtol=0, atol=1e-4 * np.abs(expected).max())
