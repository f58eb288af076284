import numpy as np
import pytest
import tensorflow as tf

from common.backbones import cut_network, freeze_batch_norm, mobilenet_v2, resnet10
from common.backbones.cut_network import CutNetwork
from common.errors import InvalidInput

keras = tf.keras
IMAGES = np.random.default_rng(0).integers(0, 256, (2, 32, 32, 3), dtype=np.uint8)


@pytest.fixture(scope="module")
def network():
    return resnet10(3)


@pytest.mark.parametrize(
    ("trained_from", "map_shape"),
    [("head", (4, 4, 64)), ("layer2", (16, 16, 16)), ("layer3", (8, 8, 32)), ("layer3.1", (4, 4, 64))],
)
def test_both_parts_after_another_are_the_network_also_loaded(trained_from, map_shape, network):
    expected = network(IMAGES, training=False)
    parts = cut_network(network, trained_from)
    activations = parts.lower(IMAGES, training=False)
    assert tuple(activations.shape[1:]) == map_shape
    np.testing.assert_array_equal(parts(IMAGES, training=False), expected)
    np.testing.assert_array_equal(parts.upper(activations, training=False), expected)
    assert len(parts.weights) == len(network.weights)
    copy = CutNetwork.from_config(parts.get_config())
    copy(IMAGES)
    copy.set_weights(parts.get_weights())
    np.testing.assert_allclose(copy(IMAGES), expected, rtol=1e-5, atol=1e-6)


def test_only_what_is_above_the_cut_is_trained_and_moves_its_batch_statistics():
    network = resnet10(3)
    parts = cut_network(network, "layer3.1")
    names = {layer.name for layer in parts.upper.layers if layer.weights}
    assert names == {"layer3.1.conv1", "layer3.1.bn1", "layer3.1.conv2", "layer3.1.bn2"}
    assert len(parts.trainable_variables) == 6  # two kernels, and scale and offset twice
    below, above = network.get_layer("bn1"), network.get_layer("layer3.1.bn1")
    before = [np.array(layer.moving_mean) for layer in (below, above)]
    with tf.GradientTape() as tape:
        loss = tf.reduce_sum(parts(IMAGES, training=True) ** 2)
    gradients = tape.gradient(loss, [*parts.trainable_variables, network.get_layer("conv1").kernel])
    assert gradients[-1] is None
    assert all(np.abs(gradient).max() > 0 for gradient in gradients[:-1])
    np.testing.assert_array_equal(below.moving_mean, before[0])
    assert np.abs(np.array(above.moving_mean) - before[1]).max() > 0
    frozen = cut_network(freeze_batch_norm(resnet10(3)), "layer3.1")
    assert len(frozen.trainable_variables) == 2


def test_drop_out_below_the_cut_is_off_in_training_too():
    images = keras.Input((4, 4, 1))
    dropped = keras.layers.Dropout(0.5)(keras.layers.Conv2D(8, 1, name="first")(images))
    network = keras.Model(images, keras.layers.Conv2D(2, 1, name="second")(dropped))
    parts = cut_network(network, "second")
    inputs = np.ones((3, 4, 4, 1), np.float32)
    np.testing.assert_array_equal(parts(inputs, training=True), parts(inputs, training=False))


@pytest.mark.parametrize("trained_from", ["layer9", "layer2.0.conv2", "layer3.0.bn1", "layer3.1.add", "images"])
def test_a_name_that_is_none_and_a_place_beside_a_shortcut_are_refused(trained_from, network):
    with pytest.raises(InvalidInput, match="--trained_from.*head, or where resnet10.*layer1, layer2, layer3, layer3.1"):
        cut_network(network, trained_from)


def test_blocks_of_a_large_network_are_places():
    parts = cut_network(mobilenet_v2(), "features.18")
    assert parts.lower.output.shape[-1] == 320
    assert [layer.name for layer in parts.upper.layers if layer.weights] == ["features.18.0", "features.18.1"]
