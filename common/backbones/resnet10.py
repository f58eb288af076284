"""A small residual network for small grey images."""

from __future__ import annotations

import os

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
    model = keras.Model(images, x, name="resnet10")
    if frozen_batch_norm:
        freeze_batch_norm(model)
    return initialize_weights(model, weights)
