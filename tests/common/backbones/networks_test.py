"""What is special about a network; `torch_oracles_test` compares features."""

import inspect
import json
import pathlib
import struct

import numpy as np
import pytest
import tensorflow as tf

from common.backbones import pretrained_weights
from common.backbones.bn_inception import bn_inception
from common.backbones.efficientnet_lite0 import efficientnet_lite0
from common.backbones.mobilenet_v2 import mobilenet_v2
from common.backbones.pretrained_weights import load_parameters, named_parameters
from common.backbones.resnet50 import resnet50, resnet50_layout
from common.errors import InvalidInput

keras = tf.keras


@pytest.fixture(scope="module")
def bn_inception_model():
    return bn_inception()


def test_modules_pool_as_in_figure_5(bn_inception_model):
    pools = [layer for layer in bn_inception_model.layers if layer.name.endswith("_pool")]
    of_maxima = [layer.name for layer in pools if isinstance(layer, keras.layers.MaxPooling2D)]
    assert of_maxima == [f"inception_{module}_pool" for module in ("3c", "4e", "5b")]
    assert len(pools) == 10


def test_images_are_taken_as_caffe_or_the_published_code_does(bn_inception_model):
    means = {"caffe": [1 - 104, -117, 255 - 128], "imagenet": [1 - 103.53, -116.28, 131.325]}
    default = inspect.signature(bn_inception).parameters["input_mean"].default
    for input_mean, expected in means.items():
        model = bn_inception_model if input_mean == default else bn_inception(input_mean=input_mean)
        found = model.get_layer("input_normalization")(tf.constant([[[[255.0, 0.0, 1.0]]]]))
        np.testing.assert_allclose(found, [[[expected]]], atol=1e-4)


@pytest.fixture(scope="module")
def lite():
    return efficientnet_lite0(weights="imagenet")


def test_constants_are_the_authors(lite):
    norms = [layer for layer in lite.layers if isinstance(layer, keras.layers.BatchNormalization)]
    assert {(layer.epsilon, layer.momentum) for layer in norms} == {(1e-3, 0.99)}
    assert {float(layer.max_value) for layer in lite.layers if isinstance(layer, keras.layers.ReLU)} == {6.0}
    image = tf.constant([[[[127.0, 255.0, 0.0]]]])
    np.testing.assert_allclose(lite.get_layer("input_normalization")(image), [[[[0, 1, -127 / 128]]]], atol=1e-6)


def test_imagenet_weights_are_in_the_package(lite):
    """A plain loop over the stem: its convolution, batch norm and ReLU6 at one place of a random image."""
    folder = pathlib.Path(pretrained_weights.__file__).parent / "imagenet"
    with np.load(folder / "efficientnet_lite0.npz") as file:
        kernel, (gamma, beta, mean, variance) = (
            file["conv_stem.weight"].astype(np.float64),
            (file[f"bn1.{name}"] for name in ("weight", "bias", "running_mean", "running_var")),
        )
    image = np.random.default_rng(0).integers(0, 256, (1, 8, 8, 3)).astype(np.float32)
    stem = keras.Model(lite.input, lite.get_layer("bn1.act").output)
    patch = ((image[0, 2:5, 4:7] - 127) / 128).transpose(2, 0, 1)  # "same" padding of an even side: none before it
    value = np.array([np.sum(patch * filters) for filters in kernel])
    expected = np.clip((value - mean) / np.sqrt(variance + 1e-3) * gamma + beta, 0, 6)
    np.testing.assert_allclose(stem(image)[0, 1, 2], expected, atol=1e-4)
    assert (folder / "LICENSE").exists()
    assert (folder / "NOTICE").exists()


@pytest.fixture(scope="module")
def mobilenet_v2_model():
    return mobilenet_v2()


def test_the_map_is_halved_where_table_2_says(mobilenet_v2_model):
    layers = [layer for layer in mobilenet_v2_model.layers if isinstance(layer, tf.keras.layers.DepthwiseConv2D)]
    assert len(layers) == 17
    halving = [layer.name for layer in layers if tuple(layer.strides) == (2, 2)]
    assert halving == [f"features.{index}.conv.1.0" for index in (2, 4, 7, 14)]


def test_imagenet_parameters_load_exactly(mobilenet_v2_model, shared_file):
    path = shared_file("weights/mobilenet_v2_imagenet_torchvision.npz")
    result = load_parameters(mobilenet_v2_model, path)
    assert set(result.loaded) == set(named_parameters(mobilenet_v2_model))
    with np.load(path) as file:
        assert len(result.loaded) + len(result.ignored) == len(file.files)
        kernel = file["features.2.conv.1.0.weight"]  # depthwise: [channels, 1, height, width]
        variable = named_parameters(mobilenet_v2_model)["features.2.conv.1.0.weight"].variable
        np.testing.assert_array_equal(np.asarray(variable)[..., 0], kernel[:, 0].transpose(1, 2, 0))
    assert all(name.startswith("classifier.") or name.endswith("num_batches_tracked") for name in result.ignored)


def strided(model):
    layers = [layer for layer in model.layers if isinstance(layer, keras.layers.Conv2D)]
    return [layer.kernel_size[0] for layer in layers if layer.strides == (2, 2)]


def test_keras_layout_is_keras_network_with_its_preprocessing(tmp_path):
    oracle = keras.applications.ResNet50(include_top=False, weights=None)
    oracle.save_weights(str(tmp_path / "resnet50.weights.h5"))
    model = resnet50(weights=str(tmp_path / "resnet50.weights.h5"))
    images = np.random.default_rng(0).integers(0, 256, (2, 64, 40, 3)).astype(np.uint8)
    expected = oracle(keras.applications.resnet50.preprocess_input(images.astype(np.float32)))
    np.testing.assert_allclose(model(images), expected, rtol=1e-3, atol=1e-4 * np.abs(expected).max())
    assert strided(model) == [7, 1, 1, 1, 1, 1, 1]


def test_a_file_of_torchvision_and_a_checkpoint_have_its_layout_and_do_not_fit_the_other(tmp_path):
    """`output_stride_test` has the strides of that layout."""
    path = tmp_path / "resnet50.npz"
    np.savez(path, **{"bn1.bias": np.zeros(64, np.float32)})
    with pytest.raises(InvalidInput, match=r"missing \(\d+\): .*conv1_conv.*unknown \(1\): bn1.bias"):
        resnet50(weights=path, layout="keras")
    header = json.dumps({"bn1.bias": {"dtype": "F32", "shape": [64], "data_offsets": [0, 256]}}).encode()
    checkpoint = tmp_path / "resnet50.safetensors"
    checkpoint.write_bytes(struct.pack("<Q", len(header)) + header + bytes(256))
    assert resnet50_layout(path) == resnet50_layout(checkpoint) == "torchvision"
    with pytest.raises(InvalidInput, match=r"missing \(\d+\): bn1.running_mean.*conv1.weight"):
        resnet50(weights=checkpoint)
