"""Tests of BN-Inception: names, map sizes, and features equal to PyTorch's where PyTorch and its port are installed."""

import importlib.util
from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf

from common.backbones.bn_inception import bn_inception
from common.backbones.pretrained_weights import load_parameters
from common.errors import InvalidInput

keras = tf.keras


@pytest.fixture(scope="module")
def model():
    return bn_inception()


def test_modules_pool_as_in_figure_5(model):
    pools = [layer for layer in model.layers if layer.name.endswith("_pool")]
    of_maxima = [layer.name for layer in pools if isinstance(layer, keras.layers.MaxPooling2D)]
    assert of_maxima == [f"inception_{module}_pool" for module in ("3c", "4e", "5b")]
    assert len(pools) == 10


def test_images_are_taken_as_caffe_does(model):
    normalization = model.get_layer("input_normalization")
    red = tf.constant([[[[255.0, 0.0, 1.0]]]])
    np.testing.assert_allclose(normalization(red), [[[[1 - 104, -117, 255 - 128]]]], atol=1e-4)


def test_images_are_taken_as_the_published_code_does():
    normalization = bn_inception(input_mean="imagenet").get_layer("input_normalization")
    red = tf.constant([[[[255.0, 0.0, 1.0]]]])
    np.testing.assert_allclose(normalization(red), [[[[1 - 103.53, -116.28, 255 - 123.675]]]], atol=1e-4)
    with pytest.raises(InvalidInput, match="--input_mean: received 'mine', expected one of caffe, imagenet"):
        bn_inception(input_mean="mine")


@pytest.fixture(scope="module")
def oracle():
    """The package's network with random parameters, batch norm's statistics included.

    Only its own file is read: the package imports torchvision, which need not fit the PyTorch at hand.
    """
    torch = pytest.importorskip("torch", reason="PyTorch, the oracle, is not installed")
    package = importlib.util.find_spec("pretrainedmodels")
    if package is None:
        pytest.skip("pretrainedmodels, the oracle, is not installed")
    path = Path(package.origin).parent / "models" / "bninception.py"
    spec = importlib.util.spec_from_file_location("bninception_oracle", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    torch.manual_seed(0)
    network = module.bninception(pretrained=None).eval()
    generator = torch.Generator().manual_seed(1)
    for layer in network.modules():
        if isinstance(layer, torch.nn.BatchNorm2d):
            for tensor in (layer.weight.data, layer.running_var):
                tensor.uniform_(0.6, 1.4, generator=generator)
            for tensor in (layer.bias.data, layer.running_mean):
                tensor.uniform_(-0.2, 0.2, generator=generator)
    return network


@pytest.fixture(scope="module")
def converted(oracle, tmp_path_factory):
    path = tmp_path_factory.mktemp("bn_inception") / "parameters.npz"
    np.savez(path, **{name: value.numpy() for name, value in oracle.state_dict().items()})
    model = bn_inception()
    result = load_parameters(model, path)
    learnt = [name for name in oracle.state_dict() if not name.endswith("num_batches_tracked")]
    assert {*result.loaded, "last_linear.weight", "last_linear.bias"} == set(learnt)
    return model


@pytest.mark.parametrize("size", [(31, 70), (66, 127), (227, 224)])
def test_features_equal_pytorchs(oracle, converted, size):
    import torch

    images = np.random.default_rng(0).uniform(0, 255, (1, *size, 3)).astype(np.float32)
    with torch.no_grad():
        inputs = torch.from_numpy((images[..., ::-1] - np.float32([104, 117, 128])).transpose(0, 3, 1, 2).copy())
        expected = oracle.features(inputs).numpy().transpose(0, 2, 3, 1)
    features = np.asarray(converted(images, training=False))
    assert features.shape == expected.shape
    assert np.abs(expected).max() > 0.1
    np.testing.assert_allclose(features, expected, rtol=0, atol=1e-4 * np.abs(expected).max())
