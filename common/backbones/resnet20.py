"""The residual network of twenty layers for CIFAR."""

from __future__ import annotations

import os

from tensorflow import keras

from common.backbones.convolution import batch_normalization, convolution, freeze_batch_norm, rectifier
from common.backbones.input_normalization import InputNormalization
from common.backbones.pretrained_weights import initialize_weights
from common.backbones.residual_network import basic_block, residual_stages
from common.errors import check_positive


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
    model = keras.Model(images, x, name="resnet20")
    if frozen_batch_norm:
        freeze_batch_norm(model)
    return initialize_weights(model, weights)
