"""Convolution and batch normalisation in PyTorch's convention, which published parameters assume.

Every layer that holds parameters is named after its module in torchvision's network ("layer1.0.conv2"), so that a name
in a parameter file is `<layer name>.<parameter>` and needs no translation (see `pretrained_weights`).
"""

from __future__ import annotations

from collections.abc import Sequence

import tensorflow as tf
from tensorflow import keras

from common.backbones.network_names import OUTPUT_STRIDE, OUTPUT_STRIDES
from common.errors import check_choice


def convolution(
    x: tf.Tensor,
    filters: int,
    kernel_size: int,
    name: str,
    *,
    stride: int = 1,
    dilation: int = 1,
    use_bias: bool = False,
    padding: str = "symmetric",
) -> tf.Tensor:
    """Apply a convolution, by default without bias and with symmetric padding.

    The padding is `kernel_size // 2` on all sides. TensorFlow's "same" pads a strided convolution more on the bottom
    and right than on the top and left, where it may not pad at all. This shifts the features against PyTorch's; hence
    the explicit padding.

    Args:
        x: symbolic feature maps [batch, height, width, channels].
        filters: number of output channels.
        kernel_size: side of the square kernel, odd.
        name: the layer's name.
        stride: 1 or more.
        dilation: places between two entries of the kernel, 1 or more; above 1 only with stride 1.
        use_bias: whether an offset is added to each output channel.
        padding: "symmetric" (PyTorch's), or "same" for parameters that were trained in TensorFlow.

    Returns:
        [batch, ceil(height / stride), ceil(width / stride), filters]
    """
    x, padding = _pad(x, kernel_size, stride, name, padding)
    return keras.layers.Conv2D(
        filters,
        kernel_size,
        strides=stride,
        padding=padding,
        dilation_rate=dilation,
        use_bias=use_bias,
        kernel_initializer=keras.initializers.VarianceScaling(2.0, "fan_out", "untruncated_normal"),
        name=name,
    )(x)


def depthwise_convolution(
    x: tf.Tensor, kernel_size: int, name: str, *, stride: int = 1, dilation: int = 1, padding: str = "symmetric"
) -> tf.Tensor:
    """Apply a convolution with one kernel per channel.

    [batch, height, width, channels] -> [batch, height', width', channels]; see `convolution`.
    """
    x, padding = _pad(x, kernel_size, stride, name, padding)
    return keras.layers.DepthwiseConv2D(
        kernel_size,
        strides=stride,
        padding=padding,
        dilation_rate=dilation,
        use_bias=False,
        depthwise_initializer=keras.initializers.HeNormal(),
        name=name,
    )(x)


def _pad(x: tf.Tensor, kernel_size: int, stride: int, name: str, padding: str) -> tuple[tf.Tensor, str]:
    """Pad `x` where "same" is not symmetric; return the remaining padding too."""
    if stride == 1 or kernel_size == 1 or padding == "same":
        return x, "same"
    return keras.layers.ZeroPadding2D(kernel_size // 2, name=f"{name}.padding")(x), "valid"


def stage_settings(strides: Sequence[int], output_stride: int) -> list[tuple[dict[str, int], dict[str, int]]]:
    """Return `stride` and `dilation` of each stage's first block, and of its others.

    At output stride 16, the last strided stage has stride 1, and all kernels behind that place are dilated by 2. So
    every second place of the larger map has the features of the usual map, up to rounding and with fixed statistics.

    Reference: Yu and Koltun, Multi-scale context aggregation by dilated convolutions (ICLR 2016).

    Args:
        strides: of each stage's first block.
        output_stride: 32 (the network's own) or 16.

    Raises:
        InvalidInput: another output stride.
    """
    check_choice("output_stride", output_stride, OUTPUT_STRIDES)
    last = max(stage for stage, stride in enumerate(strides) if stride > 1)
    last = len(strides) if output_stride == OUTPUT_STRIDE else last
    dilated = {"dilation": 2}
    settings: list[tuple[dict[str, int], dict[str, int]]] = [({"stride": stride}, {}) for stride in strides[:last]]
    return settings + [(dilated if stage else {}, dilated) for stage in range(len(strides[last:]))]


def batch_normalization(x: tf.Tensor, name: str, *, momentum: float = 0.9, epsilon: float = 1e-5) -> tf.Tensor:
    """Apply batch normalisation, by default with PyTorch's constants.

    PyTorch's momentum .1 is Keras' .9.
    """
    return keras.layers.BatchNormalization(momentum=momentum, epsilon=epsilon, name=name)(x)


def rectifier(x: tf.Tensor, name: str, *, max_value: float | None = None) -> tf.Tensor:
    """Apply max(x, 0), with `max_value` as an upper limit (6 in MobileNetV2)."""
    return keras.layers.ReLU(max_value=max_value, name=name)(x)


def freeze_batch_norm(model: keras.Model) -> keras.Model:
    """Put every batch normalisation of `model` into inference mode permanently.

    The moving statistics stay fixed, even in training, and scale and offset do not train, as for the thesis' pretrained
    backbones (recipe "backbone batch norm"). Setting `model.trainable = True`, on the backbone or on a model around it,
    reaches into every layer and undoes this: call it again afterwards.

    Args:
        model: a backbone as the functions of this package return it.

    Returns:
        `model`
    """
    for layer in model._flatten_layers(include_self=False, recursive=True):  # also of networks inside
        if isinstance(layer, keras.layers.BatchNormalization):
            layer.trainable = False
    return model
