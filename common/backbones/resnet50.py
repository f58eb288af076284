"""ResNet-50, in torchvision's layout and in Keras'."""

from __future__ import annotations

import os

import tensorflow as tf
from tensorflow import keras

from common.backbones.checkpoint_files import is_checkpoint
from common.backbones.convolution import batch_normalization, convolution, freeze_batch_norm, rectifier
from common.backbones.input_normalization import (
    CAFFE_MEAN_BGR,
    IMAGENET_MEAN,
    IMAGENET_STD,
    InputNormalization,
    check_image_channels,
)
from common.backbones.keras_application import keras_application
from common.backbones.network_names import OUTPUT_STRIDE
from common.backbones.pretrained_weights import check_imagenet, initialize_weights
from common.backbones.published_checkpoints import conversion_instructions
from common.backbones.residual_network import bottleneck_block, residual_stages
from common.errors import check_choice, invalid

LAYOUTS = ("auto", "torchvision", "keras")
KERAS_WEIGHTS_URL = (
    "https://storage.googleapis.com/tensorflow/keras-applications/resnet/"
    "resnet50_weights_tf_dim_ordering_tf_kernels_notop.h5"
)


def resnet50(
    input_channels: int = 3,
    *,
    frozen_batch_norm: bool = True,
    weights: str | os.PathLike = "none",
    layout: str = "auto",
    output_stride: int = OUTPUT_STRIDE,
) -> keras.Model:
    """Build ResNet-50 without its classifier.

    Reference: He et al., Deep residual learning for image recognition (CVPR 2016), table 1. The published code's
    "ResNet50V2" is the Keras layout (version 1).

    | layout | stride of a stage on | biases | input | weights |
    |---|---|---|---|---|
    | torchvision | the 3 x 3 convolution | no | RGB, ImageNet's mean and std | a file with torchvision's names |
    | keras | the first 1 x 1 convolution | yes | BGR, 0..255 minus ImageNet's mean | imagenet, or Keras' `.h5` |

    Args:
        input_channels: 3 (RGB), or 1 (grey, repeated to three channels).
        frozen_batch_norm: batch normalisation in inference mode, also in training; False when training from scratch.
        weights: "none", "imagenet" (Keras' layout only) or a path.
        layout: "torchvision", "keras", or "auto": torchvision's for an `.npz`, a checkpoint (`.pth`, ...) or output
            stride 16, else Keras'.
        output_stride: 32, or 16 for a map twice as large: the last stage dilated instead of strided, same weights.

    Input shape: [batch, height, width, input_channels], values 0..255; height and width 32 or more.
    Output shape: [batch, ceil(height / output_stride), ceil(width / output_stride), 2048]

    Returns:
        a keras.Model

    Raises:
        InvalidInput: another number of channels, layout or output stride, or weights that do not exist or do not fit.
    """
    check_image_channels(input_channels)
    check_choice("layout", layout, LAYOUTS)
    if layout == "auto":
        layout = resnet50_layout(weights, output_stride)
    if layout == "keras" and output_stride != OUTPUT_STRIDE:
        raise invalid("output_stride", received=output_stride, expected=f"{OUTPUT_STRIDE} with Keras' layout")
    images = keras.Input((None, None, input_channels), name="images")
    if layout == "keras":
        x = InputNormalization(CAFFE_MEAN_BGR, scale=1.0, channel_order="bgr", name="input_normalization")(images)
        model = keras_application(keras.applications.ResNet50, x, weights, url=KERAS_WEIGHTS_URL)
    else:
        check_imagenet("resnet50", weights, conversion_instructions("resnet50"))
        model = keras.Model(images, _torchvision_features(images, output_stride), name="resnet50")
        initialize_weights(model, weights)
    if frozen_batch_norm:
        freeze_batch_norm(model)
    return model


def resnet50_layout(weights: str | os.PathLike, output_stride: int = OUTPUT_STRIDE) -> str:
    """Return the layout that "auto" stands for; arguments as of `resnet50`."""
    is_of_torchvision = os.fspath(weights).endswith(".npz") or is_checkpoint(weights)
    return "torchvision" if is_of_torchvision or output_stride != OUTPUT_STRIDE else "keras"


def _torchvision_features(images: tf.Tensor, output_stride: int) -> tf.Tensor:
    x = InputNormalization(IMAGENET_MEAN, IMAGENET_STD, name="input_normalization")(images)
    x = convolution(x, 64, 7, "conv1", stride=2)
    x = rectifier(batch_normalization(x, "bn1"), "relu1")
    x = keras.layers.ZeroPadding2D(1, name="maxpool.padding")(x)  # zeros never win: the rectifier's output is >= 0
    x = keras.layers.MaxPooling2D(3, strides=2, name="maxpool")(x)
    filters, num_blocks, strides = (256, 512, 1024, 2048), (3, 4, 6, 3), (1, 2, 2, 2)
    return residual_stages(x, bottleneck_block, filters, num_blocks, strides, output_stride)
