"""BN-Inception in pretrainedmodels' layout (PyTorch): the thesis' backbone for photographs."""

from __future__ import annotations

import os
from typing import NamedTuple

import tensorflow as tf
from tensorflow import keras

from common.backbones.convolution import batch_normalization, convolution, freeze_batch_norm, rectifier
from common.backbones.input_normalization import IMAGENET_MEAN, InputNormalization, check_image_channels
from common.backbones.pretrained_weights import check_imagenet, initialize_weights
from common.backbones.published_checkpoints import conversion_instructions
from common.errors import check_choice

INPUT_MEANS = {  # BGR, in 0..255
    "caffe": (104.0, 117.0, 128.0),
    "imagenet": tuple(255 * mean for mean in reversed(IMAGENET_MEAN)),
}


class _Widths(NamedTuple):
    """Output channels of a module's convolutions; None for a missing branch."""

    single: int | None
    reduce: int
    triple: int
    double_reduce: int
    double: int
    projection: int | None


# Ioffe & Szegedy, figure 5. A module without projection halves the map.
_MODULES = {
    "3a": _Widths(64, 64, 64, 64, 96, 32),
    "3b": _Widths(64, 64, 96, 64, 96, 64),
    "3c": _Widths(None, 128, 160, 64, 96, None),
    "4a": _Widths(224, 64, 96, 96, 128, 128),
    "4b": _Widths(192, 96, 128, 96, 128, 128),
    "4c": _Widths(160, 128, 160, 128, 160, 128),
    "4d": _Widths(96, 128, 192, 160, 192, 128),
    "4e": _Widths(None, 128, 192, 192, 256, None),
    "5a": _Widths(352, 192, 320, 160, 224, 128),
    "5b": _Widths(352, 192, 320, 192, 224, 128),
}
_MAXIMUM_POOLED = ("5b",)  # the last module's projection is of a maximum, all others' of an average


def bn_inception(
    input_channels: int = 3,
    *,
    frozen_batch_norm: bool = True,
    weights: str | os.PathLike = "none",
    input_mean: str = "caffe",
) -> keras.Model:
    """Build BN-Inception without its classifier.

    Names and layers are those of `bninception` in pretrainedmodels 0.7.4.

    Reference: thesis sections 3.2.4 and 5.2.4 (backbone of all photograph experiments); Ioffe and Szegedy, Batch
    normalization (ICML 2015), figure 5. The published code loads an opaque Keras file in its place; this is the public
    port of the Caffe network. Images are taken as BGR in 0..255 minus (104, 117, 128), as that network was trained.

    The feature map is 7 x 7 for images of 224 and of 227 pixels, 8 x 8 for 256. The PyTorch network accepts only sizes
    whose halvings stay even. This one gives the same maps for those sizes, and accepts others too.

    Args:
        input_channels: 3 (RGB), or 1 (grey, repeated to three channels).
        frozen_batch_norm: batch normalisation in inference mode, also in training; False when training from scratch.
        weights: "none", or the path of an `.npz` with these names; "imagenet" explains how to make one.
        input_mean: "caffe" (as above), or "imagenet": minus (103.53, 116.28, 123.675), as in the published code.

    Input shape: [batch, height, width, input_channels], values 0..255; height and width 7 or more.
    Output shape: [batch, ceil(floor((height + 1) / 8) / 4), ceil(floor((width + 1) / 8) / 4), 1024]

    Returns:
        a keras.Model

    Raises:
        InvalidInput: another number of channels or mean, or weights that do not exist or do not fit.
    """
    check_image_channels(input_channels)
    check_imagenet("bn_inception", weights, conversion_instructions("bn_inception"))
    mean = INPUT_MEANS[check_choice("--input_mean", input_mean, INPUT_MEANS)]
    images = keras.Input((None, None, input_channels), name="images")
    x = InputNormalization(mean, scale=1.0, channel_order="bgr", name="input_normalization")(images)
    x = _convolution(x, 64, 7, "conv1_7x7_s2", stride=2)
    x = _halving_maximum(x, "pool1_3x3_s2")
    x = _convolution(x, 64, 1, "conv2_3x3_reduce")
    x = _convolution(x, 192, 3, "conv2_3x3")
    x = _halving_maximum(x, "pool2_3x3_s2")
    for module, widths in _MODULES.items():
        x = _inception(x, widths, f"inception_{module}", use_maximum=module in _MAXIMUM_POOLED)
    model = keras.Model(images, x, name="bn_inception")
    if frozen_batch_norm:
        freeze_batch_norm(model)
    return initialize_weights(model, weights)


def _inception(x: tf.Tensor, widths: _Widths, name: str, *, use_maximum: bool) -> tf.Tensor:
    """Compute up to four branches side by side.

    They are 1 x 1, 3 x 3, twice 3 x 3, and a pooling (projected, or halving the map).
    """
    stride = 2 if widths.projection is None else 1
    branches = []
    if widths.single is not None:
        branches.append(_convolution(x, widths.single, 1, f"{name}_1x1"))
    y = _convolution(x, widths.reduce, 1, f"{name}_3x3_reduce")
    branches.append(_convolution(y, widths.triple, 3, f"{name}_3x3", stride=stride))
    y = _convolution(x, widths.double_reduce, 1, f"{name}_double_3x3_reduce")
    y = _convolution(y, widths.double, 3, f"{name}_double_3x3_1")
    branches.append(_convolution(y, widths.double, 3, f"{name}_double_3x3_2", stride=stride))
    y = _pooling(x, f"{name}_pool", stride=stride, use_maximum=use_maximum)
    if widths.projection is not None:
        y = _convolution(y, widths.projection, 1, f"{name}_pool_proj")
    branches.append(y)
    return keras.layers.Concatenate(name=f"{name}_output")(branches)


def _pooling(x: tf.Tensor, name: str, *, stride: int, use_maximum: bool) -> tf.Tensor:
    """Pool 3 x 3 windows, centred like the convolutions' windows beside it.

    All branches then have one size.
    """
    if use_maximum or stride == 2:
        # For even sizes this is PyTorch's pooling with ceil_mode; for odd ones PyTorch's branches would not fit.
        return keras.layers.MaxPooling2D(3, strides=stride, padding="same", name=name)(x)
    x = keras.layers.ZeroPadding2D(1, name=f"{name}.padding")(x)  # the zeros count: always a division by nine
    return keras.layers.AveragePooling2D(3, strides=1, name=name)(x)


def _halving_maximum(x: tf.Tensor, name: str) -> tf.Tensor:
    """Apply PyTorch's halving 3 x 3 maximum pooling.

    Stride 2, no padding and ceil_mode: [floor(height / 2), floor(width / 2)].
    """
    x = keras.layers.ZeroPadding2D(((0, 1), (0, 1)), name=f"{name}.padding")(x)  # zeros never win over a rectifier's
    return keras.layers.MaxPooling2D(3, strides=2, name=name)(x)


def _convolution(x: tf.Tensor, filters: int, kernel_size: int, name: str, *, stride: int = 1) -> tf.Tensor:
    x = convolution(x, filters, kernel_size, name, stride=stride, use_bias=True)
    return rectifier(batch_normalization(x, f"{name}_bn"), f"{name}_relu")
