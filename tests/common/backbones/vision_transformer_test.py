import numpy as np
import pytest
import tensorflow as tf

from common.backbones import (
    load_parameters,
    save_parameters,
    vision_transformer,
    vit_base_16,
    vit_small_16,
    with_timm_names,
)
from common.backbones.input_normalization import IMAGENET_MEAN, IMAGENET_STD
from common.errors import InvalidInput

keras = tf.keras
SMALL = {"channels": 12, "num_blocks": 2, "num_heads": 3, "patch_size": 8, "image_size": 32}
DEIT_S_PARAMETERS = 22_050_664 - 1000 * 385  # timm's count, without the classifier


def small(**settings):
    return vision_transformer("small", **{**SMALL, **settings})


def images_of(size=32, channels=3, batch=2):
    return np.random.default_rng(0).integers(0, 256, (batch, size, size, channels)).astype(np.uint8)


def test_patches_are_a_map_and_the_class_token_one_position():
    patches, first = small(), small(tokens="class")
    first.set_weights(patches.get_weights())
    images = images_of()
    tokens = np.asarray(keras.Model(patches.input, patches.get_layer("norm").output)(images))
    assert tokens.shape == (2, 1 + 16, 12)
    assert patches.output_shape == (None, 4, 4, 12)
    np.testing.assert_allclose(patches(images), tokens[:, 1:].reshape(2, 4, 4, 12), rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(first(images), tokens[:, None, :1], rtol=1e-5, atol=1e-5)


def test_positions_tell_patches_apart():
    """Without positions a transformer gives the same tokens to exchanged patches in the exchanged order."""
    model, images = small(), images_of(batch=1).astype(np.float32)
    exchanged = np.concatenate([images[:, :, 16:], images[:, :, :16]], axis=2)
    back = np.asarray(model(exchanged))[:, :, [2, 3, 0, 1]]
    assert np.abs(back - model(images)).max() > 1e-3
    table = model.get_layer("tokens").pos_embed
    table.assign(np.zeros(table.shape))
    back = np.asarray(model(exchanged))[:, :, [2, 3, 0, 1]]
    np.testing.assert_allclose(back, model(images), rtol=1e-4, atol=1e-5)


def test_grey_images_are_three_equal_channels():
    grey, colour = small(input_channels=1), small()
    grey.set_weights(colour.get_weights())
    images = images_of(channels=1)
    np.testing.assert_allclose(grey(images), colour(np.repeat(images, 3, axis=-1)), rtol=1e-4, atol=1e-5)


def test_networks_and_parameters_go_through_a_file(tmp_path):
    first, second = small(), small()
    save_parameters(first, tmp_path / "small.npz")
    loaded = load_parameters(second, tmp_path / "small.npz").loaded
    assert {"cls_token", "pos_embed", "blocks.1.attn.qkv.weight", "norm.bias"} <= set(loaded)
    assert len(loaded) == len(first.weights)
    expected = first(images_of())
    np.testing.assert_array_equal(second(images_of()), expected)
    with pytest.raises(InvalidInput, match=r"wrong shape \(1\): pos_embed \[1, 17, 12\] instead of \[1, 5, 12\]"):
        load_parameters(small(image_size=16), tmp_path / "small.npz")
    first.save(tmp_path / "model.keras")
    np.testing.assert_array_equal(keras.models.load_model(tmp_path / "model.keras")(images_of()), expected)


def tokens_before(model, block):
    """The tokens that a block normalises first."""
    return np.asarray(keras.Model(model.input, model.get_layer(f"blocks.{block}.norm1").input)(images_of()))


@pytest.mark.parametrize("tokens", ["patches", "class"])
@pytest.mark.parametrize("blocks", ["all", "first"])
def test_prompts_stand_behind_the_class_token(blocks, tokens):
    """In the first block they are added to the plain tokens; in the second they replace those of the first."""
    plain, model = small(tokens=tokens), small(tokens=tokens, num_prompts=3, prompt_blocks=blocks)
    layers = [model.get_layer(f"blocks.{number}.prompts") for number in range(2 if blocks == "all" else 1)]
    own = {id(layer.prompts) for layer in layers}
    assert {id(weight) for weight in model.trainable_weights} == own
    assert all(0.15 < np.abs(layer.prompts).max() <= (6 / (3 * 64 + 12)) ** 0.5 for layer in layers)  # .171
    for weight, value in zip([weight for weight in model.weights if id(weight) not in own], plain.get_weights()):
        weight.assign(value)
    first, expected = tokens_before(model, 0), tokens_before(plain, 0)
    np.testing.assert_allclose(np.delete(first, [1, 2, 3], axis=1), expected, rtol=1e-6)
    np.testing.assert_array_equal(first[:, 1:4], np.repeat(layers[0].prompts, 2, axis=0))
    if blocks == "all":
        after = np.asarray(keras.Model(model.input, model.get_layer("blocks.0.add2").output)(images_of()))
        second = tokens_before(model, 1)
        np.testing.assert_allclose(np.delete(second, [1, 2, 3], axis=1), np.delete(after, [1, 2, 3], axis=1), rtol=1e-6)
        np.testing.assert_array_equal(second[:, 1:4], np.repeat(layers[1].prompts, 2, axis=0))
    assert model.output_shape == plain.output_shape
    assert np.abs(model(images_of()) - plain(images_of())).max() > 1e-4


def test_a_file_without_prompts_leaves_them_random(tmp_path):
    plain = small()
    save_parameters(plain, tmp_path / "plain.npz")
    model = small(num_prompts=2, weights=tmp_path / "plain.npz")
    np.testing.assert_array_equal(tokens_before(model, 0)[:, 3:], tokens_before(plain, 0)[:, 1:])
    assert np.any(model.get_layer("blocks.1.prompts").prompts)
    model.save(tmp_path / "model.keras")
    loaded = keras.models.load_model(tmp_path / "model.keras")
    save_parameters(model, tmp_path / "prompted.npz")
    for same in (loaded, small(num_prompts=2, weights=tmp_path / "prompted.npz")):
        np.testing.assert_array_equal(same(images_of()), model(images_of()))
        assert len(same.trainable_weights) == 2


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"num_prompts": 0}, "num_prompts.*0.*greater than 0"),
        ({"num_prompts": 2, "prompt_blocks": "last"}, "prompt_blocks.*last.*all, first"),
        ({"image_size": 36}, "image_size.*36.*multiple of 8"),
        ({"num_heads": 5}, "channels of SelfAttention.*36.*multiple of 3 x 5"),
        ({"tokens": "all"}, "tokens.*all.*patches, class"),
        ({"num_blocks": 0}, "num_blocks"),
        ({"input_channels": 2}, "input_channels"),
    ],
)
def test_what_does_not_fit_is_refused(settings, message):
    with pytest.raises(InvalidInput, match=message):
        small(**settings)


@pytest.mark.slow
def test_the_small_network_has_deits_parameters():
    model = vit_small_16()
    assert sum(np.prod(weight.shape) for weight in model.weights) == DEIT_S_PARAMETERS
    assert model.output_shape == (None, 14, 14, 384)
    with pytest.raises(InvalidInput, match="deit_small_patch16_224-cd65a155.pth"):
        vit_small_16(weights="imagenet")


def randomized(torch, network):
    """Normalisations start as the identity and biases as zeros, which would hide an exchange of parameters."""
    with torch.no_grad():
        for parameter in network.parameters():
            parameter.add_(torch.randn_like(parameter) * 0.05)
    return network.eval()


def assert_same_tokens(torch, tokens_of, model, size):
    """All patch tokens of random images agree to 1e-5, relative to the largest one where that is above 1."""
    images = images_of(size)
    normalized = (images / 255 - np.array(IMAGENET_MEAN)) / np.array(IMAGENET_STD)
    with torch.no_grad():
        tokens = tokens_of(torch.from_numpy(normalized.transpose(0, 3, 1, 2).astype(np.float32))).numpy()
    features = np.asarray(model(images, training=False))
    expected = tokens[:, 1:].reshape(features.shape) if features.shape[1] > 1 else tokens[:, None, :1]
    assert np.abs(features - expected).max() < 1e-5 * max(1.0, np.abs(expected).max())


def tokens_of_torchvision(torch, network):
    def tokens(images):
        patches = network._process_input(images)
        return network.encoder(torch.cat([network.class_token.expand(len(patches), -1, -1), patches], dim=1))

    return tokens


def converted(network, model, path):
    np.savez(path, **with_timm_names({name: value.numpy() for name, value in network.state_dict().items()}))
    assert load_parameters(model, path).ignored == ("head.bias", "head.weight")
    return model


@pytest.mark.parametrize("tokens", ["patches", "class"])
def test_torchvisions_network_gives_the_same_tokens(torch, torchvision, tmp_path, tokens):
    network = randomized(torch, torchvision.VisionTransformer(32, 8, 2, 3, 12, 48))
    model = converted(network, small(tokens=tokens), tmp_path / "network.npz")
    assert_same_tokens(torch, tokens_of_torchvision(torch, network), model, 32)


@pytest.mark.parametrize("tokens", ["patches", "class"])
def test_timms_network_gives_the_same_tokens(torch, timm, tmp_path, tokens):
    make = timm.models.vision_transformer.VisionTransformer
    network = randomized(torch, make(img_size=32, patch_size=8, embed_dim=12, depth=2, num_heads=3))
    model = converted(network, small(tokens=tokens), tmp_path / "network.npz")
    assert_same_tokens(torch, network.forward_features, model, 32)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["deit_small_patch16_224", "vit_small_patch16_224"])
def test_timms_small_network_gives_the_same_tokens(torch, timm, tmp_path, name):
    network = timm.create_model(name, pretrained=False).eval()
    model = converted(network, vit_small_16(), tmp_path / "network.npz")
    assert_same_tokens(torch, network.forward_features, model, 224)


@pytest.mark.slow
def test_torchvisions_base_network_gives_the_same_tokens(torch, torchvision, tmp_path):
    network = torchvision.vit_b_16(weights=None).eval()
    model = converted(network, vit_base_16(), tmp_path / "network.npz")
    assert_same_tokens(torch, tokens_of_torchvision(torch, network), model, 224)
