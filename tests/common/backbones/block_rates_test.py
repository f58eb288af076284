import pytest
import tensorflow as tf

from common.backbones import block_rates, cut_network, keras_hub_backbone, vision_transformer
from common.errors import InvalidInput
from tests.support import presets

keras = tf.keras


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
