"""Networks that are cut, or train by blocks or by updates of low rank."""

import numpy as np
import pytest
import tensorflow as tf

from common.backbones import (
    block_rates,
    check_lora,
    cut_network,
    enable_lora,
    freeze_batch_norm,
    keras_hub_backbone,
    merge_lora,
    resnet10,
    vision_transformer,
)
from common.backbones.cut_network import CutNetwork
from common.backbones.low_rank import HAS_LORA
from common.errors import InvalidInput
from tests.support import presets

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


needs_keras_3 = pytest.mark.skipif(not HAS_LORA, reason="Keras 2 has no LoRA")


def network_and_images():
    tf.keras.utils.set_random_seed(0)
    images = np.random.default_rng(0).uniform(0, 255, size=(2, 16, 16, 3)).astype(np.float32)
    return vision_transformer("small", 12, 2, 3, 8, 3, "none", 16), images


@needs_keras_3
@pytest.mark.parametrize("train_norms", [False, True])
def test_updates_begin_at_nothing_and_are_all_that_is_trained(train_norms):
    network, images = network_and_images()
    before, weights = network(images), len(network.weights)
    assert enable_lora(network, 3, train_norms=train_norms) == 8  # four dense layers in each of two blocks
    np.testing.assert_array_equal(network(images), before)
    assert len(network.weights) == weights + 16
    names = {weight.path.split("/")[-1] for weight in network.trainable_weights}
    assert names == {"lora_kernel_a", "lora_kernel_b"} | ({"gamma", "beta"} if train_norms else set())
    shapes = {tuple(w.shape) for w in network.trainable_weights if w.path.endswith("blocks.0.mlp.fc1/lora_kernel_a")}
    assert shapes == {(12, 3)}


@needs_keras_3
def test_a_merged_network_is_the_unmerged_one_to_rounding(tmp_path):
    network, images = network_and_images()
    untrained, weights = network(images), [weight.path for weight in network.weights]
    enable_lora(network, 2)
    generator = np.random.default_rng(1)
    for weight in network.trainable_weights:
        weight.assign(generator.normal(0, 0.3, weight.shape))
    unmerged = network(images).numpy()
    merge_lora(network)
    assert [weight.path for weight in network.weights] == weights
    assert np.abs(unmerged - untrained).max() > 0.1
    np.testing.assert_allclose(network(images), unmerged, atol=1e-5)
    network.save(tmp_path / "merged.keras")
    loaded = tf.keras.models.load_model(tmp_path / "merged.keras")
    assert [weight.path.split("/")[-2:] for weight in loaded.weights] == [path.split("/")[-2:] for path in weights]
    np.testing.assert_array_equal(loaded(images), network(images))


def test_networks_and_stacks_without_lora_are_refused():
    with pytest.raises(InvalidInput, match="lora_rank: received 0, expected a number greater than 0"):
        check_lora(0)
    expected = "a transformer, which has dense layers" if HAS_LORA else "none on Keras 2, whose layers have no LoRA"
    with pytest.raises(InvalidInput, match=expected):
        enable_lora(resnet10(3), 2)


def small():
    return vision_transformer("small", 12, 2, 3, 8, image_size=32)


def one_convolution():
    images = keras.Input((None, None, 3))
    return keras.Model(images, keras.layers.Conv2D(4, 3, name="conv1")(images))


def rates_by_part(network, decay=0.5):
    """The rates of the variables whose address begins with a part's name."""
    found = {}
    for weight, rate in block_rates(network, decay):
        address = getattr(weight, "path", weight.name)
        number = next(
            (part for part in address.replace(".", "/").replace("layers_", "").split("/") if part in "01"), ""
        )
        part = f"block {number}" if number else address.split("/")[0].removeprefix("dinov2_backbone_")
        found.setdefault(part, set()).add(round(rate, 6))
    return found


def test_ours_begin_at_the_patches_and_end_at_the_last_normalisation_if_it_is_trained():
    network = small()
    found = rates_by_part(network)
    assert found == {
        "patch_embed.proj": {0.125},
        "tokens": {0.125},
        "block 0": {0.25},
        "block 1": {0.5},
        "norm": {1.0},
    }
    network.get_layer("norm").trainable = False
    assert {*found} - {*rates_by_part(network)} == {"norm"}


def test_those_of_keras_hub_are_found_by_their_numbers(tmp_path):
    network = keras_hub_backbone(str(presets.tiny_dinov2(tmp_path)), image_size=32)
    found = rates_by_part(network)
    assert found == {"embeddings": {0.125}, "block 0": {0.25}, "block 1": {0.5}, "layernorm": {1.0}}
    assert len(block_rates(network, 0.5)) == len(network.trainable_weights)


def test_the_upper_part_of_a_cut_counts_from_the_last_block():
    network = vision_transformer("small", 12, 3, 3, 8, image_size=32)
    upper = cut_network(network, "blocks.1").upper
    assert [round(rate, 6) for _, rate in block_rates(upper, 0.5)] == [0.25] * 12 + [0.5] * 12 + [1.0] * 2


@pytest.mark.parametrize("network", [one_convolution, lambda: vision_transformer("one", 12, 1, 3, 8, image_size=32)])
def test_a_network_of_fewer_than_two_blocks_is_refused(network):
    model = network()
    with pytest.raises(InvalidInput, match="network.*a transformer of two blocks or more"):
        block_rates(model, 0.5)
