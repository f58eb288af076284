import functools

import numpy as np
import pytest
import tensorflow as tf

from common.backbones import efficientnet_lite0, folded_network, mobilenet_v2, resnet50
from common.backbones.pretrained_weights import named_parameters, save_parameters
from common.errors import InvalidInput

keras = tf.keras

NETWORKS = {
    "efficientnet_lite0": efficientnet_lite0,
    "mobilenet_v2": mobilenet_v2,
    "resnet50": functools.partial(resnet50, layout="torchvision"),
}
SIZES = [(64, 48), (33, 47)]  # the last strided convolution sees a map of even and of odd sides


@pytest.fixture(scope="module", params=[*list(NETWORKS)[:2], pytest.param("resnet50", marks=pytest.mark.release)])
def networks(request, tmp_path_factory):
    """(name, the usual network, the same weights at output stride 16), with statistics other than 0 and 1."""
    usual, random = NETWORKS[request.param](), np.random.default_rng(0)
    usual.set_weights(
        [w * random.uniform(0.8, 1.2, w.shape) + 0.02 * random.random(w.shape) for w in usual.get_weights()]
    )
    path = tmp_path_factory.mktemp("weights") / "network.npz"
    save_parameters(usual, path)
    return request.param, usual, NETWORKS[request.param](weights=path, output_stride=16)


def images_of(size):
    return np.random.default_rng(1).integers(0, 256, (2, *size, 3)).astype(np.float32)


@pytest.mark.parametrize("size", SIZES)
def test_every_second_place_has_the_features_of_the_usual_map(networks, size):
    name, usual, dilated = networks
    expected, found = usual(images_of(size)).numpy(), dilated(images_of(size)).numpy()
    assert found.shape == (2, *(-(-side // 16) for side in size), expected.shape[-1])
    first = [1 if name == "efficientnet_lite0" and side % 2 == 0 else 0 for side in found.shape[1:3]]  # "same" padding
    scale = np.abs(expected).max()
    assert scale > 0.01
    np.testing.assert_allclose(found[:, first[0] :: 2, first[1] :: 2], expected, atol=1e-5 * scale)
    assert np.abs(found[:, 1 - first[0] :: 2]).max() > 0.01


def test_folded_saved_and_read_back(networks, tmp_path):
    _, usual, dilated = networks
    images = images_of(SIZES[0])
    expected = dilated(images).numpy()
    folded, number = folded_network(dilated)
    assert number == folded_network(usual)[1] > 0
    np.testing.assert_allclose(folded(images), expected, atol=1e-5 * np.abs(expected).max())
    dilated.save(tmp_path / "network.keras")
    np.testing.assert_array_equal(keras.models.load_model(tmp_path / "network.keras")(images), expected)


def test_resnet50_is_dilated_in_torchvisions_layout_only():
    dilated = resnet50(output_stride=16)
    assert "layer1.0.conv1.weight" in named_parameters(dilated)
    strided = [
        each.kernel_size[0]
        for each in dilated.layers
        if isinstance(each, keras.layers.Conv2D) and each.strides != (1, 1)
    ]
    assert strided == [7, 3, 1, 3, 1]  # a stage at its 3x3 convolution, and its shortcut
    with pytest.raises(InvalidInput, match="output_stride: received 16, expected 32 with Keras' layout"):
        resnet50(layout="keras", output_stride=16)
