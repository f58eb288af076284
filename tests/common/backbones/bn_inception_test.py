"""Poolings and image means of BN-Inception; `torch_oracles_test` compares its features."""

import numpy as np
import pytest
import tensorflow as tf

from common.backbones.bn_inception import bn_inception
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


@pytest.mark.parametrize(
    ("input_mean", "expected"), [("caffe", [1 - 104, -117, 255 - 128]), ("imagenet", [1 - 103.53, -116.28, 131.325])]
)
def test_images_are_taken_as_caffe_or_the_published_code_does(input_mean, expected):
    normalization = bn_inception(input_mean=input_mean).get_layer("input_normalization")
    np.testing.assert_allclose(normalization(tf.constant([[[[255.0, 0.0, 1.0]]]])), [[[expected]]], atol=1e-4)


def test_another_mean_is_refused():
    with pytest.raises(InvalidInput, match="--input_mean: received 'mine', expected one of caffe, imagenet"):
        bn_inception(input_mean="mine")
