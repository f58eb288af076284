"""Presets of keras-hub, such as ViT and DINOv2, with the normalisation of their training."""

from __future__ import annotations

import hashlib
import os
import pathlib
from collections.abc import Callable, Sequence
from types import ModuleType
from typing import TypeVar

import tensorflow as tf
from tensorflow import keras

from common.backbones.convolution import freeze_batch_norm
from common.backbones.input_normalization import InputNormalization, check_image_channels
from common.backbones.network_names import PATCHES, PRESET_PREFIX, PRESET_WEIGHTS
from common.backbones.transformer_layers import TokenMap
from common.errors import InvalidInput, invalid

Loaded = TypeVar("Loaded")
_CONVERTER = "image_converter.json"
_IMAGE_MODELS = ("DINOV2Backbone", "DINOV3Backbone", "DeiTBackbone", "ViTBackbone")  # named in messages


def keras_hub() -> ModuleType:
    """Import and return the module `keras_hub` on first use.

    Raises:
        InvalidInput: Keras 2, or it is not installed.
    """
    if keras.__name__.startswith("keras.api._v2"):
        raise InvalidInput(
            f"{PRESET_PREFIX} needs Keras 3, and this is Keras 2 (the thesis stack). Take --backbone=vit_small_16 or "
            "vit_base_16, which run on both, or install requirements.txt in another environment."
        )
    try:
        import keras_hub
    except ImportError as error:
        raise InvalidInput(
            f"keras-hub is needed for {PRESET_PREFIX} and cannot be imported ({error}). Install it: "
            "pip install 'deep-metric-learning[keras-hub]'."
        ) from error
    return keras_hub


def keras_hub_backbone(
    preset: str,
    input_channels: int = 3,
    *,
    frozen_batch_norm: bool = True,
    weights: str | os.PathLike = PRESET_WEIGHTS,
    image_size: int = 224,
    tokens: str = PATCHES,
) -> keras.Model:
    """Build the image backbone of a keras-hub preset, for images in 0..255.

    The preset's image converter defines how images were normalised in training. DINOv2's table of positions is resized
    to the image size once and not trained afterwards, because keras-hub's file format keeps only the original table.

    Args:
        preset: the name of a preset ("dinov2_small"), a handle ("kaggle://...", "hf://..."), or a folder that
            `save_to_preset` of a backbone and of its image converter has written, as keras-hub takes them.
        input_channels: 3 (RGB), or 1 (grey, repeated to three channels).
        frozen_batch_norm: batch normalisation, if any, in inference mode, also in training.
        weights: "preset", or "none" for random ones.
        image_size: height and width of the images in pixels.
        tokens: of a transformer `patches` gives them as a feature map, `class` the class token alone.

    Input shape: [batch, image_size, image_size, input_channels], values 0..255.
    Output shape: [batch, height', width', channels]; of the class token [batch, 1, 1, channels].

    Returns:
        a keras.Model

    Raises:
        InvalidInput: see `keras_hub`; an unavailable preset or one of no image backbone, an image size that does not
            fit it, or a missing class token.
    """
    check_image_channels(input_channels)
    hub = keras_hub()
    if weights not in ("none", PRESET_WEIGHTS):
        raise invalid(
            "weights", received=os.fspath(weights), expected=f'"none" or "{PRESET_WEIGHTS}" for {PRESET_PREFIX}{preset}'
        )
    normalization = _normalization(hub, preset)
    network = _network(hub, preset, weights == PRESET_WEIGHTS, image_size)
    _keep_positions(network)
    images = keras.Input((image_size, image_size, input_channels), name="images")
    x = normalization(images)
    features = network({"images": x} if isinstance(network.input, dict) else x)
    features = features if len(features.shape) == 4 else _token_map(network, features, image_size, tokens)
    model = keras.Model(images, features, name=network.name)
    if frozen_batch_norm:
        freeze_batch_norm(model)
    return model


def check_preset(preset: str) -> None:
    """Refuse unknown preset names and folders without a preset, before any download.

    Raises:
        InvalidInput: see above and `keras_hub`.
    """
    hub = keras_hub()
    if "://" in preset or preset in hub.models.Backbone.presets:
        return
    if not os.path.isfile(os.path.join(preset, "config.json")):
        models = (getattr(hub.models, name, None) for name in _IMAGE_MODELS)
        names = sorted(name for model in models if model is not None for name in model.presets)
        raise invalid(
            "--backbone",
            received=f"{PRESET_PREFIX}{preset}",
            expected=f"the name of a preset of keras-hub ({', '.join(names)}, ...), a handle such as "
            "hf://USER/NAME, or a folder that save_to_preset has written",
        )


def preset_digest(preset: str, *, with_weights: bool) -> str | None:
    """Return the SHA-256 of a local preset's files, in hexadecimal.

    None for a preset that is downloaded.

    Args:
        preset: as `keras_hub_backbone` takes it.
        with_weights: whether its weights count, beside its configuration.
    """
    folder = pathlib.Path(preset)
    if not (folder / "config.json").is_file():
        return None
    files = [folder / "config.json", folder / _CONVERTER]
    files += sorted(folder.glob("model*.weights.*")) if with_weights else []
    digest = hashlib.sha256()
    for file in files:
        content = file.read_bytes() if file.is_file() else b""
        digest.update(f"{file.name} {len(content)} ".encode() + content)
    return digest.hexdigest()


def _normalization(hub: ModuleType, preset: str) -> InputNormalization:
    """Return the pixel normalisation of the preset's image converter.

    It is `scale · image + offset`, per channel.
    """
    converter = _from_preset(preset, lambda: hub.layers.ImageConverter.from_preset(preset))
    scale = _per_channel(1.0 if converter.scale is None else converter.scale)
    offset = _per_channel(0.0 if converter.offset is None else converter.offset)
    mean = [-shift / factor for factor, shift in zip(scale, offset)]
    return InputNormalization(mean, [1 / factor for factor in scale], scale=1.0, name="input_normalization")


def _per_channel(value: float | Sequence[float]) -> list[float]:
    return [value] * 3 if isinstance(value, (int, float)) else [float(each) for each in value]


def _network(hub: ModuleType, preset: str, with_weights: bool, image_size: int) -> keras.Model:
    shape = (image_size, image_size, 3)

    def load() -> keras.Model:
        return hub.models.Backbone.from_preset(preset, load_weights=with_weights, image_shape=shape)

    return _from_preset(preset, load)


def _from_preset(preset: str, load: Callable[[], Loaded]) -> Loaded:
    try:
        return load()
    except Exception as error:  # keras-hub raises many types: of files, of the network, of shapes
        missing = _CONVERTER in str(error)
        reason = " ".join(str(error).split())[:300]
        raise invalid(
            "--backbone",
            received=f"{PRESET_PREFIX}{preset}",
            expected="a preset of an image backbone that can be read here, and that fits --image_size",
            fix=f"keras-hub says: {reason} "
            + (
                "Its image converter says how images are normalised: save one into the same folder by its "
                "save_to_preset."
                if missing
                else "Check the connection, or give the folder of a preset; ViT presets take the --image_size of their "
                "name alone, DINOv2 takes multiples of 14."
            ),
        ) from error


def _keep_positions(network: keras.Model) -> None:
    """Freeze positions that keras-hub's `.keras` files would not hold.

    The files hold those before resizing.
    """
    for layer in network.layers:
        positions = getattr(layer, "interpolated_position_embeddings", None)
        if positions is not None:
            positions.trainable = False


def _token_map(network: keras.Model, features: tf.Tensor, image_size: int, tokens: str) -> tf.Tensor:
    patch_size = getattr(network, "patch_size", None)
    if len(features.shape) != 3 or patch_size is None:
        raise invalid(
            "--backbone",
            received=f"{PRESET_PREFIX} of a {type(network).__name__}",
            expected="an image backbone that gives feature maps, or tokens of patches",
        )
    height, width = patch_size if isinstance(patch_size, (list, tuple)) else (patch_size, patch_size)
    num_patches = (image_size // height) * (image_size // width)
    return TokenMap(tokens, features.shape[1] - num_patches, name="token_map")(features)
