"""Residual networks for small images: ten and twenty layers, and twenty with pre-activation."""

from __future__ import annotations

import os

import tensorflow as tf
from tensorflow import keras

from common.backbones.convolution import batch_normalization, convolution, freeze_batch_norm, rectifier
from common.backbones.input_normalization import InputNormalization
from common.backbones.pretrained_weights import initialize_weights
from common.backbones.residual_network import basic_block, residual_stages
from common.errors import check_positive


def resnet10(
    input_channels: int = 1, width: int = 16, *, frozen_batch_norm: bool = False, weights: str | os.PathLike = "none"
) -> keras.Model:
    """Build a ten-layer residual network for drawn characters.

    The characters have 32 to 48 pixels; the network trains from scratch on a CPU. A 3 x 3 convolution with stride 2,
    then four basic blocks of `width` · (1, 2, 4, 4) channels and strides 1, 2, 2, 1.

    Args:
        input_channels: channels of the images, 1 or more.
        width: channels of the first convolution.
        frozen_batch_norm: batch normalisation in inference mode, also in training.
        weights: "none", or the path of a file that `save_parameters` wrote.

    Input shape: [batch, height, width, input_channels], values 0..255.
    Output shape: [batch, ceil(height / 8), ceil(width / 8), 4 · width]

    Returns:
        a keras.Model

    Raises:
        InvalidInput: a number that is not positive, or weights that do not exist or do not fit.
    """
    check_positive("input_channels", input_channels)
    check_positive("width", width)
    images = keras.Input((None, None, input_channels), name="images")
    x = InputNormalization(mean=0.5, std=0.5, name="input_normalization")(images)  # to [-1, 1]
    x = convolution(x, width, 3, "conv1", stride=2)
    x = rectifier(batch_normalization(x, "bn1"), "relu1")
    x = residual_stages(x, basic_block, filters=(width, 2 * width, 4 * width), num_blocks=(1, 1, 2), strides=(1, 2, 2))
    return _network(images, x, "resnet10", frozen_batch_norm, weights)


def resnet20(
    input_channels: int = 3, *, frozen_batch_norm: bool = False, weights: str | os.PathLike = "none"
) -> keras.Model:
    """Build ResNet-20 for images of about 32 pixels.

    3 stages x 3 basic blocks of 16, 32 and 64 channels.

    Reference: thesis 5.3.2 ("ResNet20, i.e. 3 stages, 3 blocks"); He et al., Deep residual learning for image
    recognition (CVPR 2016), section 4.2, with projections if the shape changes. The published code has another network
    instead, see `resnet_v2_20`. Images are normalised as in that code for collages: image / 255 - 0.5.

    Args:
        input_channels: channels of the images, 1 or more.
        frozen_batch_norm: batch normalisation in inference mode, also in training.
        weights: "none", or the path of a file that `save_parameters` wrote.

    Input shape: [batch, height, width, input_channels], values 0..255.
    Output shape: [batch, ceil(height / 4), ceil(width / 4), 64]

    Returns:
        a keras.Model

    Raises:
        InvalidInput: no channels, or weights that do not exist or do not fit.
    """
    check_positive("input_channels", input_channels)
    images = keras.Input((None, None, input_channels), name="images")
    x = InputNormalization(mean=0.5, name="input_normalization")(images)
    x = convolution(x, 16, 3, "conv1")
    x = rectifier(batch_normalization(x, "bn1"), "relu1")
    x = residual_stages(x, basic_block, filters=(16, 32, 64), num_blocks=(3, 3, 3), strides=(1, 2, 2))
    return _network(images, x, "resnet20", frozen_batch_norm, weights)


def resnet_v2_20(
    input_channels: int = 1, *, frozen_batch_norm: bool = False, weights: str | os.PathLike = "none"
) -> keras.Model:
    """Build ResNetV2-20 for images of about 32 pixels.

    3 stages x 2 pre-activation bottlenecks of 64, 128 and 256 channels.

    Reference: thesis chapter 3 (MNIST study); He et al., Identity mappings in deep residual networks (ECCV 2016). As
    in the published code the inner widths are 16, 64 and 128, the stride is on the first 1 x 1 convolution, and a
    stage's first shortcut is a projection of its input before the activation.

    Args:
        input_channels: channels of the images, 1 or more.
        frozen_batch_norm: batch normalisation in inference mode, also in training.
        weights: "none", or the path of a file that `save_parameters` wrote.

    Input shape: [batch, height, width, input_channels], values 0..255.
    Output shape: [batch, ceil(height / 4), ceil(width / 4), 256]

    Returns:
        a keras.Model

    Raises:
        InvalidInput: no channels, or weights that do not exist or do not fit.
    """
    check_positive("input_channels", input_channels)
    images = keras.Input((None, None, input_channels), name="images")
    x = InputNormalization(mean=0.5, name="input_normalization")(images)
    x = convolution(x, 16, 3, "conv1")
    x = _activate(x, "stem")
    for stage, (inner, filters) in enumerate(((16, 64), (64, 128), (128, 256)), start=1):
        for index in range(2):
            stride = 2 if stage > 1 and index == 0 else 1
            # The stem's activation serves the very first block.
            activate_input = stage > 1 or index > 0
            x = _block(x, inner, filters, f"layer{stage}.{index}", stride=stride, activate_input=activate_input)
    return _network(images, _activate(x, "head"), "resnet_v2_20", frozen_batch_norm, weights)


def _block(x: tf.Tensor, inner: int, filters: int, name: str, *, stride: int, activate_input: bool) -> tf.Tensor:
    """Compute x + F(x), a pre-activation bottleneck block.

    F has 1 x 1, 3 x 3 and 1 x 1 convolutions, each after a batch normalisation and a rectifier.
    """
    residual = _activate(x, f"{name}.0") if activate_input else x
    residual = convolution(residual, inner, 1, f"{name}.conv1", stride=stride)
    residual = convolution(_activate(residual, f"{name}.1"), inner, 3, f"{name}.conv2")
    residual = convolution(_activate(residual, f"{name}.2"), filters, 1, f"{name}.conv3")
    if stride > 1 or x.shape[-1] != filters:
        x = convolution(x, filters, 1, f"{name}.downsample.0", stride=stride)
    return keras.layers.Add(name=f"{name}.add")([x, residual])


def _activate(x: tf.Tensor, name: str) -> tf.Tensor:
    return rectifier(batch_normalization(x, f"{name}.bn"), f"{name}.relu")


def _network(
    images: tf.Tensor, features: tf.Tensor, name: str, frozen_batch_norm: bool, weights: str | os.PathLike
) -> keras.Model:
    model = keras.Model(images, features, name=name)
    if frozen_batch_norm:
        freeze_batch_norm(model)
    return initialize_weights(model, weights)
