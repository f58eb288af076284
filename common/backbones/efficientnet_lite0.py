"""EfficientNet-lite0: a small network for photographs, without squeeze-and-excitation."""

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
from common.backbones.input_normalization import InputNormalization, check_image_channels
from common.backbones.network_names import OUTPUT_STRIDE
from common.backbones.pretrained_weights import initialize_weights

# Tan & Le, table 1, without attention: expansion, channels, number of blocks, stride of the first one, kernel.
_STAGES = (
    (1, 16, 1, 1, 3),
    (6, 24, 2, 2, 3),
    (6, 40, 2, 2, 5),
    (6, 80, 3, 2, 3),
    (6, 112, 3, 1, 5),
    (6, 192, 4, 2, 5),
    (6, 320, 1, 1, 3),
)


def efficientnet_lite0(
    input_channels: int = 3,
    *,
    frozen_batch_norm: bool = True,
    weights: str | os.PathLike = "none",
    output_stride: int = OUTPUT_STRIDE,
) -> keras.Model:
    """Build EfficientNet-lite0 without its classifier, with timm's names.

    The names are those of `tf_efficientnet_lite0`.

    Reference: Tan and Le, EfficientNet (ICML 2019), and its authors' "lite" networks for mobile devices: B0 with ReLU6
    instead of swish, and no squeeze-and-excitation. Padding ("same"), batch norm's constants and the input,
    (image - 127) / 128, are the authors'.

    Args:
        input_channels: 3 (RGB), or 1 (grey, repeated to three channels).
        frozen_batch_norm: batch normalisation in inference mode, also in training; False when training from scratch.
        weights: "none", "imagenet" (in this package), or the path of a file with timm's names.
        output_stride: 32, or 16 for a map twice as large: the last strided stage dilated instead, same weights.

    Input shape: [batch, height, width, input_channels], values 0..255.
    Output shape: [batch, ceil(height / output_stride), ceil(width / output_stride), 1280]

    Returns:
        a keras.Model

    Raises:
        InvalidInput: another number of channels or output stride, or weights that do not exist or do not fit.
    """
    check_image_channels(input_channels)
    images = keras.Input((None, None, input_channels), name="images")
    # Three means, though they are equal, so that grey images become three channels.
    x = InputNormalization((127.0,) * 3, 128.0, scale=1.0, name="input_normalization")(images)
    x = convolution(x, 32, 3, "conv_stem", stride=2, padding="same")
    x = _activate(x, "bn1")
    settings = stage_settings([stage[3] for stage in _STAGES], output_stride)
    for stage, (expansion, filters, num_blocks, _, kernel_size) in enumerate(_STAGES):
        for block in range(num_blocks):
            name = f"blocks.{stage}.{block}"
            x = _inverted_residual(x, filters, kernel_size, name, expansion, **settings[stage][block > 0])
    x = _activate(convolution(x, 1280, 1, "conv_head"), "bn2")
    model = keras.Model(images, x, name="efficientnet_lite0")
    if frozen_batch_norm:
        freeze_batch_norm(model)
    return initialize_weights(model, weights)


def _inverted_residual(
    x: tf.Tensor, filters: int, kernel_size: int, name: str, expansion: int, stride: int = 1, dilation: int = 1
) -> tf.Tensor:
    """Expand by 1 x 1, filter each channel, project linearly.

    Adds the input if the shape stays.
    """
    channels = x.shape[-1]
    y, projection, norm = x, "conv_pw", 1
    if expansion > 1:
        y = _activate(convolution(y, expansion * channels, 1, f"{name}.conv_pw"), f"{name}.bn1")
        projection, norm = "conv_pwl", 2
    y = depthwise_convolution(y, kernel_size, f"{name}.conv_dw", stride=stride, dilation=dilation, padding="same")
    y = _activate(y, f"{name}.bn{norm}")
    y = convolution(y, filters, 1, f"{name}.{projection}")
    y = _normalize(y, f"{name}.bn{norm + 1}")
    if stride == 1 and channels == filters:
        y = keras.layers.Add(name=f"{name}.add")([x, y])
    return y


def _activate(x: tf.Tensor, name: str) -> tf.Tensor:
    return rectifier(_normalize(x, name), f"{name}.act", max_value=6.0)


def _normalize(x: tf.Tensor, name: str) -> tf.Tensor:
    return batch_normalization(x, name, momentum=0.99, epsilon=1e-3)
