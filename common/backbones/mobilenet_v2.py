"""MobileNetV2 in torchvision's layout: the backbone for photographs on a CPU."""

from __future__ import annotations

import os

import tensorflow as tf
from tensorflow import keras

from common.backbones.convolution import (
    batch_normalization,
    convolution,
    depthwise_convolution,
    freeze_batch_norm,
    rectifier,
    stage_settings,
)
from common.backbones.input_normalization import IMAGENET_MEAN, IMAGENET_STD, InputNormalization, check_image_channels
from common.backbones.network_names import OUTPUT_STRIDE
from common.backbones.pretrained_weights import check_imagenet, initialize_weights
from common.backbones.published_checkpoints import conversion_instructions

# Table 2 of the paper: expansion, channels, number of blocks, stride of the first one.
_STAGES = ((1, 16, 1, 1), (6, 24, 2, 2), (6, 32, 3, 2), (6, 64, 4, 2), (6, 96, 3, 1), (6, 160, 3, 2), (6, 320, 1, 1))


def mobilenet_v2(
    input_channels: int = 3,
    *,
    frozen_batch_norm: bool = True,
    weights: str | os.PathLike = "none",
    output_stride: int = OUTPUT_STRIDE,
) -> keras.Model:
    """Build MobileNetV2 (width 1.0) without its classifier, layer for layer torchvision's.

    Reference: Sandler et al., MobileNetV2: inverted residuals and linear bottlenecks (CVPR 2018), table 2. It differs
    from the one in `keras.applications` in padding (symmetric), batch norm's constants and input normalisation
    (ImageNet's mean and standard deviation), so the two cannot share parameters.

    Args:
        input_channels: 3 (RGB), or 1 (grey, repeated to three channels).
        frozen_batch_norm: batch normalisation in inference mode, also in training; False when training from scratch.
        weights: "none", or the path of an `.npz` with torchvision's parameters; "imagenet" explains how to make one.
        output_stride: 32, or 16 for a map twice as large: the last strided stage dilated instead, same weights.

    Input shape: [batch, height, width, input_channels], values 0..255.
    Output shape: [batch, ceil(height / output_stride), ceil(width / output_stride), 1280]

    Returns:
        a keras.Model

    Raises:
        InvalidInput: another number of channels or output stride, or weights that do not exist or do not fit.
    """
    check_image_channels(input_channels)
    check_imagenet("mobilenet_v2", weights, conversion_instructions("mobilenet_v2"))
    images = keras.Input((None, None, input_channels), name="images")
    x = InputNormalization(IMAGENET_MEAN, IMAGENET_STD, name="input_normalization")(images)
    x = _convolution_block(x, 32, 3, "features.0", stride=2)
    index = 1
    settings = stage_settings([stage[3] for stage in _STAGES], output_stride)
    for (expansion, filters, num_blocks, _), of_blocks in zip(_STAGES, settings):
        for block in range(num_blocks):
            x = _inverted_residual(x, filters, f"features.{index}", expansion, **of_blocks[block > 0])
            index += 1
    x = _convolution_block(x, 1280, 1, f"features.{index}")
    model = keras.Model(images, x, name="mobilenet_v2")
    if frozen_batch_norm:
        freeze_batch_norm(model)
    return initialize_weights(model, weights)


def _inverted_residual(
    x: tf.Tensor, filters: int, name: str, expansion: int, stride: int = 1, dilation: int = 1
) -> tf.Tensor:
    """Expand, filter each channel, project linearly.

    Kernels are 1 x 1, 3 x 3, 1 x 1. Adds the input if the shape stays.
    """
    channels = x.shape[-1]
    y = x
    index = 0
    if expansion > 1:
        y = _convolution_block(y, expansion * channels, 1, f"{name}.conv.{index}")
        index += 1
    y = depthwise_convolution(y, 3, f"{name}.conv.{index}.0", stride=stride, dilation=dilation)
    y = rectifier(batch_normalization(y, f"{name}.conv.{index}.1"), f"{name}.conv.{index}.2", max_value=6.0)
    y = convolution(y, filters, 1, f"{name}.conv.{index + 1}")
    y = batch_normalization(y, f"{name}.conv.{index + 2}")
    if stride == 1 and channels == filters:
        y = keras.layers.Add(name=f"{name}.add")([x, y])
    return y


def _convolution_block(x: tf.Tensor, filters: int, kernel_size: int, name: str, *, stride: int = 1) -> tf.Tensor:
    x = convolution(x, filters, kernel_size, f"{name}.0", stride=stride)
    return rectifier(batch_normalization(x, f"{name}.1"), f"{name}.2", max_value=6.0)
