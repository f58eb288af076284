"""Blocks of residual networks and their arrangement in stages."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import tensorflow as tf
from tensorflow import keras

from common.backbones.convolution import batch_normalization, convolution, rectifier, stage_settings
from common.backbones.network_names import OUTPUT_STRIDE


def basic_block(x: tf.Tensor, filters: int, name: str, *, stride: int = 1) -> tf.Tensor:
    """Compute relu(x + F(x)) with F = two 3 x 3 convolutions.

    The first one has the stride.

    Reference: He et al., Deep residual learning for image recognition (CVPR 2016), figure 5 left. If the shape changes,
    the shortcut is a 1 x 1 convolution (their option B).

    Args:
        x: symbolic feature maps [batch, height, width, channels].
        filters: number of output channels.
        name: prefix of the layers' names.
        stride: 1, or 2 to halve the map.

    Returns:
        [batch, ceil(height / stride), ceil(width / stride), filters]
    """
    residual = convolution(x, filters, 3, f"{name}.conv1", stride=stride)
    residual = rectifier(batch_normalization(residual, f"{name}.bn1"), f"{name}.relu1")
    residual = convolution(residual, filters, 3, f"{name}.conv2")
    residual = batch_normalization(residual, f"{name}.bn2")
    return _add(_shortcut(x, filters, name, stride), residual, name)


def bottleneck_block(x: tf.Tensor, filters: int, name: str, *, stride: int = 1, dilation: int = 1) -> tf.Tensor:
    """Build a bottleneck block: relu(x + F(x)).

    F is a 1 x 1, a 3 x 3 and a 1 x 1 convolution; the 3 x 3 one has the stride.

    Reference: He et al. (CVPR 2016), figure 5 right. They put the stride on the first 1 x 1 convolution, as Keras does;
    torchvision puts it here ("v1.5").

    Args:
        x: symbolic feature maps [batch, height, width, channels].
        filters: number of output channels; the inner convolutions have a quarter of it.
        name: prefix of the layers' names.
        stride: 1, or 2 to halve the map.
        dilation: of the 3 x 3 convolution, 1 with stride 2.

    Returns:
        [batch, ceil(height / stride), ceil(width / stride), filters]
    """
    residual = convolution(x, filters // 4, 1, f"{name}.conv1")
    residual = rectifier(batch_normalization(residual, f"{name}.bn1"), f"{name}.relu1")
    residual = convolution(residual, filters // 4, 3, f"{name}.conv2", stride=stride, dilation=dilation)
    residual = rectifier(batch_normalization(residual, f"{name}.bn2"), f"{name}.relu2")
    residual = convolution(residual, filters, 1, f"{name}.conv3")
    residual = batch_normalization(residual, f"{name}.bn3")
    return _add(_shortcut(x, filters, name, stride), residual, name)


def residual_stages(
    x: tf.Tensor,
    block: Callable[..., tf.Tensor],
    filters: Sequence[int],
    num_blocks: Sequence[int],
    strides: Sequence[int],
    output_stride: int = OUTPUT_STRIDE,
) -> tf.Tensor:
    """Apply stages of `block` in sequence.

    Stage i has `num_blocks[i]` blocks, the first of them with `strides[i]`.

    Args:
        x: symbolic feature maps [batch, height, width, channels].
        block: `basic_block` or `bottleneck_block`.
        filters: output channels of each stage.
        num_blocks: blocks of each stage.
        strides: stride of each stage's first block.
        output_stride: 16 for a dilated last stage of bottleneck blocks, see `stage_settings`.

    Returns:
        [batch, height', width', filters[-1]]
    """
    settings = stage_settings(strides, output_stride)
    for stage, (width, depth, of_blocks) in enumerate(zip(filters, num_blocks, settings), start=1):
        for index in range(depth):
            x = block(x, width, f"layer{stage}.{index}", **of_blocks[index > 0])
    return x


def _shortcut(x: tf.Tensor, filters: int, name: str, stride: int) -> tf.Tensor:
    """Return `x`, or its linear projection if the block changes shape."""
    if stride == 1 and x.shape[-1] == filters:
        return x
    x = convolution(x, filters, 1, f"{name}.downsample.0", stride=stride)
    return batch_normalization(x, f"{name}.downsample.1")


def _add(shortcut: tf.Tensor, residual: tf.Tensor, name: str) -> tf.Tensor:
    return rectifier(keras.layers.Add(name=f"{name}.add")([shortcut, residual]), f"{name}.relu")
