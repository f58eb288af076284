"""Vision transformers with the names of timm's, which also take torchvision's parameters."""

from __future__ import annotations

import functools
import os
import re
from collections.abc import Mapping

import numpy as np
import tensorflow as tf
from tensorflow import keras

from common.backbones.input_normalization import IMAGENET_MEAN, IMAGENET_STD, InputNormalization, check_image_channels
from common.backbones.network_names import ALL_BLOCKS, PATCHES, PROMPTED
from common.backbones.pretrained_weights import PROMPTS, check_imagenet, initialize_weights
from common.backbones.published_checkpoints import conversion_instructions
from common.backbones.transformer_layers import ClassTokenAndPositions, Prompts, SelfAttention, TokenMap
from common.errors import check_choice, check_positive, invalid

IMAGE_SIZE = 224  # of the published parameters; their positions fit no other
_MLP_RATIO = 4
_EPSILON = 1e-6

# torchvision's names of parameters, and timm's; `N` stands for the number of a block.
_TORCHVISION_NAMES = (
    (r"class_token", "cls_token"),
    (r"conv_proj\.", "patch_embed.proj."),
    (r"encoder\.pos_embedding", "pos_embed"),
    (r"encoder\.ln\.", "norm."),
    (r"encoder\.layers\.encoder_layer_(\d+)\.ln_", r"blocks.\1.norm"),
    (r"encoder\.layers\.encoder_layer_(\d+)\.self_attention\.in_proj_", r"blocks.\1.attn.qkv."),
    (r"encoder\.layers\.encoder_layer_(\d+)\.self_attention\.out_proj\.", r"blocks.\1.attn.proj."),
    (r"encoder\.layers\.encoder_layer_(\d+)\.mlp\.(?:0|linear_1)\.", r"blocks.\1.mlp.fc1."),
    (r"encoder\.layers\.encoder_layer_(\d+)\.mlp\.(?:3|linear_2)\.", r"blocks.\1.mlp.fc2."),
    (r"heads\.head\.", "head."),
)


def vit_small_16(
    input_channels: int = 3,
    *,
    frozen_batch_norm: bool = True,
    weights: str | os.PathLike = "none",
    image_size: int = IMAGE_SIZE,
    tokens: str = PATCHES,
    num_prompts: int | None = None,
    prompt_blocks: str = ALL_BLOCKS,
) -> keras.Model:
    """Build ViT-S/16: 12 blocks of 384 channels and 6 heads.

    Names are those of timm's `deit_small_patch16_224`. Images are normalised by ImageNet's statistics, as DeiT's and
    DINO's parameters require. timm's `augreg` parameters require -1..1: do not convert those.

    Reference: Touvron et al., Training Data-Efficient Image Transformers (ICML 2021), table 1 (DeiT-S).

    Args, shapes and errors: as `vision_transformer`.

    Returns:
        a keras.Model
    """
    del frozen_batch_norm  # there is none
    options = image_size, tokens, num_prompts, prompt_blocks
    return vision_transformer("vit_small_16", 384, 12, 6, 16, input_channels, weights, *options)


def vit_base_16(
    input_channels: int = 3,
    *,
    frozen_batch_norm: bool = True,
    weights: str | os.PathLike = "none",
    image_size: int = IMAGE_SIZE,
    tokens: str = PATCHES,
    num_prompts: int | None = None,
    prompt_blocks: str = ALL_BLOCKS,
) -> keras.Model:
    """Build ViT-B/16: 12 blocks of 768 channels and 12 heads.

    It takes the parameters of torchvision's `vit_b_16`.

    Reference: Dosovitskiy et al., An Image is Worth 16x16 Words (ICLR 2021), table 1.

    Args, shapes and errors: as `vision_transformer`.

    Returns:
        a keras.Model
    """
    del frozen_batch_norm  # there is none
    options = image_size, tokens, num_prompts, prompt_blocks
    return vision_transformer("vit_base_16", 768, 12, 12, 16, input_channels, weights, *options)


def vit_mini_8(
    input_channels: int = 3,
    *,
    frozen_batch_norm: bool = True,
    weights: str | os.PathLike = "none",
    image_size: int = IMAGE_SIZE,
    tokens: str = PATCHES,
    num_prompts: int | None = None,
    prompt_blocks: str = ALL_BLOCKS,
) -> keras.Model:
    """Build a small ViT: patches of 8 pixels, 4 blocks, 96 channels.

    It has 3 heads, and 0.47 million parameters at 32 pixels. No weights are published: train it from scratch.

    Args, shapes and errors: as `vision_transformer`.

    Returns:
        a keras.Model
    """
    del frozen_batch_norm  # there is none
    options = image_size, tokens, num_prompts, prompt_blocks
    return vision_transformer("vit_mini_8", 96, 4, 3, 8, input_channels, weights, *options, stddev=0.1)


def vision_transformer(
    name: str,
    channels: int,
    num_blocks: int,
    num_heads: int,
    patch_size: int,
    input_channels: int = 3,
    weights: str | os.PathLike = "none",
    image_size: int = IMAGE_SIZE,
    tokens: str = PATCHES,
    num_prompts: int | None = None,
    prompt_blocks: str = ALL_BLOCKS,
    *,
    stddev: float = 0.02,
) -> keras.Model:
    """Build a vision transformer without its classifier, with its final layer normalisation.

    Reference: Dosovitskiy et al., An Image is Worth 16x16 Words (ICLR 2021), equations 1 to 4.

    Args:
        name: of the network, for messages.
        channels: of every token, a multiple of `num_heads`.
        num_blocks: blocks of attention and a perceptron of four times the channels, > 0.
        num_heads: heads of attention, > 0.
        patch_size: height and width of a patch in pixels.
        input_channels: 3 (RGB), or 1 (grey, repeated to three channels).
        weights: "none", or the path of an `.npz` with timm's names; "imagenet" explains how to make one.
        image_size: height and width of the images in pixels, a multiple of `patch_size`.
        tokens: `patches` gives them as a feature map, `class` the class token alone.
        num_prompts: trained tokens beside the patches, > 0; all other weights are then frozen. None: no prompts.
        prompt_blocks: `all` has prompts for each block (deep), `first` for the first one alone (shallow).
        stddev: of the first kernels. The usual .02 makes a network with few channels learn slowly.

    Input shape: [batch, image_size, image_size, input_channels], values 0..255.
    Output shape: [batch, image_size / patch_size, image_size / patch_size, channels], or [batch, 1, 1, channels].

    Returns:
        a keras.Model

    Raises:
        InvalidInput: an image size that patches do not fill, or weights that do not exist or do not fit.
    """
    check_image_channels(input_channels)
    check_positive("num_blocks", num_blocks)
    check_choice("prompt_blocks", prompt_blocks, PROMPTED)
    if image_size % patch_size:
        raise invalid("image_size", received=image_size, expected=f"a multiple of {patch_size}, the side of a patch")
    published = name in ("vit_small_16", "vit_base_16")
    check_imagenet(name, weights, conversion_instructions(name) if published else None)
    images = keras.Input((image_size, image_size, input_channels), name="images")
    x = InputNormalization(IMAGENET_MEAN, IMAGENET_STD, name="input_normalization")(images)
    x = keras.layers.Conv2D(
        channels, patch_size, strides=patch_size, kernel_initializer=_initializer(stddev), name="patch_embed.proj"
    )(x)
    x = ClassTokenAndPositions(name="tokens")(x)
    for number in range(num_blocks):
        if num_prompts is not None and (number == 0 or prompt_blocks == ALL_BLOCKS):
            x = Prompts(num_prompts, patch_size, replace=number > 0, name=f"blocks.{number}.{PROMPTS}")(x)
        x = _block(x, f"blocks.{number}", num_heads, stddev)
    x = TokenMap(tokens, 1 + (num_prompts or 0), name="token_map")(_normalized(x, "norm"))
    network = keras.Model(images, x, name=name)
    if num_prompts is not None:
        for layer in network.layers:
            layer.trainable = isinstance(layer, Prompts)
    return initialize_weights(network, weights, rename=with_timm_names)


def with_timm_names(arrays: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Rename a vision transformer's parameters from torchvision's names to timm's.

    Other names stay.

    Args:
        arrays: by name.
    """
    return {_timm_name(name): value for name, value in arrays.items()}


def _timm_name(name: str) -> str:
    for theirs, ours in _TORCHVISION_NAMES:
        if re.match(theirs, name):
            return re.sub(theirs, ours, name, count=1)
    return name


def _block(x: tf.Tensor, name: str, num_heads: int, stddev: float) -> tf.Tensor:
    """Apply attention, then a perceptron of two layers.

    Each is behind a normalisation and inside a shortcut.
    """
    layers, channels = keras.layers, x.shape[-1]
    dense = functools.partial(_dense, stddev=stddev)
    y = dense(_normalized(x, f"{name}.norm1"), 3 * channels, f"{name}.attn.qkv")
    y = SelfAttention(num_heads, name=f"{name}.attn")(y)
    x = layers.Add(name=f"{name}.add1")([x, dense(y, channels, f"{name}.attn.proj")])
    y = dense(_normalized(x, f"{name}.norm2"), _MLP_RATIO * channels, f"{name}.mlp.fc1")
    y = layers.Activation("gelu", name=f"{name}.mlp.act")(y)
    return layers.Add(name=f"{name}.add2")([x, dense(y, channels, f"{name}.mlp.fc2")])


def _dense(x: tf.Tensor, units: int, name: str, stddev: float) -> tf.Tensor:
    return keras.layers.Dense(units, kernel_initializer=_initializer(stddev), name=name)(x)


def _normalized(x: tf.Tensor, name: str) -> tf.Tensor:
    return keras.layers.LayerNormalization(epsilon=_EPSILON, name=name)(x)


def _initializer(stddev: float) -> keras.initializers.Initializer:
    return keras.initializers.TruncatedNormal(stddev=stddev)
