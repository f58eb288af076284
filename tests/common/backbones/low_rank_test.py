import numpy as np
import pytest
import tensorflow as tf

from common.backbones import check_lora, enable_lora, merge_lora, resnet10, vision_transformer
from common.backbones.low_rank import HAS_LORA
from common.errors import InvalidInput

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
