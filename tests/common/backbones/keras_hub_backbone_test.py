import shutil
import sys

import numpy as np
import pytest
import tensorflow as tf

from common.backbones import check_preset, is_preset, keras_hub_backbone, preset_digest
from common.errors import InvalidInput
from tests.support import presets

keras = tf.keras
IS_KERAS_2 = keras.__name__.startswith("keras.api._v2")


@pytest.fixture(scope="module")
def dinov2(tmp_path_factory):
    return str(presets.tiny_dinov2(tmp_path_factory.mktemp("dinov2")))


@pytest.fixture(scope="module")
def vit(tmp_path_factory):
    return str(presets.tiny_vit(tmp_path_factory.mktemp("vit")))


def images_of(size, channels=3):
    return np.random.default_rng(0).integers(0, 256, (2, size, size, channels)).astype(np.uint8)


def tokens_of(folder, images):
    """What keras-hub itself makes of images, by its own converter."""
    hub = presets.keras_hub()
    size = images.shape[1]
    network = hub.models.Backbone.from_preset(folder, image_shape=(size, size, 3))
    converter = hub.layers.ImageConverter.from_preset(folder)
    converter.image_size = (size, size)
    normalized = converter(images.astype(np.float32))
    return np.asarray(network({"images": normalized} if isinstance(network.input, dict) else normalized))


@pytest.mark.parametrize(("name", "size", "leading"), [("dinov2", 64, 3), ("dinov2", 32, 3), ("vit", 32, 1)])
def test_tokens_are_those_of_keras_hub(name, size, leading, request):
    folder, images = request.getfixturevalue(name), images_of(size)
    tokens = tokens_of(folder, images)
    side = size // 8
    assert tokens.shape == (2, leading + side**2, 16)
    patches = keras_hub_backbone(folder, image_size=size)(images)
    np.testing.assert_allclose(patches, tokens[:, leading:].reshape(2, side, side, 16), atol=2e-5)
    first = keras_hub_backbone(folder, image_size=size, tokens="class")(images)
    np.testing.assert_allclose(first, tokens[:, None, :1], atol=2e-5)


def test_a_trained_network_survives_keras_file_format(dinov2, tmp_path):
    """keras-hub stores positions before they are resized, so those after that are not trained."""
    model = keras_hub_backbone(dinov2, image_size=32)
    assert not any("position_embeddings" in weight.path for weight in model.trainable_variables)
    for weight in model.trainable_variables:
        weight.assign(weight + 0.01)
    features = np.asarray(model(images_of(32)))
    model.save(tmp_path / "model.keras")
    copy = keras.models.load_model(tmp_path / "model.keras")
    np.testing.assert_allclose(copy(images_of(32)), features, atol=1e-6)


def test_a_network_without_a_class_token_says_so(tmp_path):
    folder = str(presets.tiny_vit(tmp_path, use_class_token=False))
    assert keras_hub_backbone(folder, image_size=32).output_shape == (None, 4, 4, 16)
    with pytest.raises(InvalidInput, match="class.*expected patches: this network has no class token"):
        keras_hub_backbone(folder, image_size=32, tokens="class")


def test_a_convolutional_preset_gives_its_feature_map(tmp_path):
    hub = presets.keras_hub()
    network = hub.models.ResNetBackbone(
        input_conv_filters=[64],
        input_conv_kernel_sizes=[3],
        stackwise_num_filters=[64, 16],
        stackwise_num_blocks=[1, 1],
        stackwise_num_strides=[1, 2],
        block_type="basic_block",
        image_shape=(None, None, 3),
    )
    network.save_to_preset(str(tmp_path))
    hub.layers.ResNetImageConverter(scale=1 / 255).save_to_preset(str(tmp_path))
    model = keras_hub_backbone(str(tmp_path), image_size=32)
    assert model.output_shape == (None, 4, 4, 16)
    images = images_of(32)
    np.testing.assert_array_equal(model(images, training=True), model(images))  # batch normalisation is frozen


def test_grey_images_are_three_equal_channels_and_without_weights_the_network_is_random(vit):
    images = images_of(32, 1)
    grey, colour = keras_hub_backbone(vit, 1, image_size=32), keras_hub_backbone(vit, image_size=32)
    expected = colour(np.repeat(images, 3, axis=-1))
    np.testing.assert_allclose(grey(images), expected, atol=1e-5)
    other = keras_hub_backbone(vit, image_size=32, weights="none")
    assert [tuple(w.shape) for w in colour.weights] == [tuple(w.shape) for w in other.weights]
    assert np.abs(np.asarray(expected) - other(np.repeat(images, 3, axis=-1))).max() > 0.1


def test_what_does_not_fit_is_refused(vit, tmp_path):
    with pytest.raises(InvalidInput, match="--backbone.*fits --image_size.*keras-hub says"):
        keras_hub_backbone(vit, image_size=64)  # keras-hub does not resize these positions
    with pytest.raises(InvalidInput, match='weights.*imagenet.*"none" or "preset"'):
        keras_hub_backbone(vit, weights="imagenet")
    shutil.copytree(vit, tmp_path / "vit")
    (tmp_path / "vit" / "image_converter.json").unlink()
    with pytest.raises(InvalidInput, match="image converter says how images are normalised: save one"):
        keras_hub_backbone(str(tmp_path / "vit"), image_size=32)


def test_names_are_checked_before_anything_is_fetched(vit, tmp_path):
    check_preset(vit)
    check_preset("dinov2_small")
    check_preset("hf://someone/network")
    for unknown in ("dinov2_smal", str(tmp_path)):
        with pytest.raises(InvalidInput, match="--backbone.*dinov2_small.*vit_base_patch16_224.*save_to_preset"):
            check_preset(unknown)
    assert is_preset("kerashub:dinov2_small")
    assert not is_preset("vit_small_16")


def test_a_folder_counts_by_its_content(vit, tmp_path):
    shutil.copytree(vit, tmp_path / "copy")
    copy = str(tmp_path / "copy")
    digests = [preset_digest(folder, with_weights=weights) for folder in (vit, copy) for weights in (True, False)]
    assert digests[:2] == digests[2:]
    assert digests[0] != digests[1]
    converter = tmp_path / "copy" / "image_converter.json"
    converter.write_text(converter.read_text().replace("-1.0", "-0.5"))
    assert preset_digest(copy, with_weights=False) != digests[1]
    assert preset_digest("dinov2_small", with_weights=True) is None


def test_without_the_extra_the_error_names_it(monkeypatch):
    if IS_KERAS_2:
        with pytest.raises(InvalidInput, match="kerashub: needs Keras 3.*vit_small_16"):
            keras_hub_backbone("dinov2_small")
        return
    monkeypatch.setitem(sys.modules, "keras_hub", None)
    for call in (keras_hub_backbone, check_preset):
        with pytest.raises(InvalidInput, match=r"cannot be imported.*deep-metric-learning\[keras-hub\]"):
            call("dinov2_small")
