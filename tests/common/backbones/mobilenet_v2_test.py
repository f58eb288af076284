"""Tests of MobileNetV2 with the ImageNet parameters of torchvision, where they are at hand."""

import numpy as np
import pytest
import tensorflow as tf

from common.backbones.mobilenet_v2 import mobilenet_v2
from common.backbones.pretrained_weights import load_parameters, named_parameters


@pytest.fixture(scope="module")
def model():
    return mobilenet_v2()


def test_the_map_is_halved_where_table_2_says(model):
    layers = [layer for layer in model.layers if isinstance(layer, tf.keras.layers.DepthwiseConv2D)]
    assert len(layers) == 17
    halving = [layer.name for layer in layers if tuple(layer.strides) == (2, 2)]
    assert halving == [f"features.{index}.conv.1.0" for index in (2, 4, 7, 14)]


def test_imagenet_parameters_load_exactly(model, shared_file):
    path = shared_file("weights/mobilenet_v2_imagenet_torchvision.npz")
    result = load_parameters(model, path)
    assert set(result.loaded) == set(named_parameters(model))
    with np.load(path) as file:
        assert len(result.loaded) + len(result.ignored) == len(file.files)
        kernel = file["features.2.conv.1.0.weight"]  # depthwise: [channels, 1, height, width]
        variable = named_parameters(model)["features.2.conv.1.0.weight"].variable
        np.testing.assert_array_equal(np.asarray(variable)[..., 0], kernel[:, 0].transpose(1, 2, 0))
    assert all(name.startswith("classifier.") or name.endswith("num_batches_tracked") for name in result.ignored)
