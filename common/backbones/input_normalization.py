"""The normalisation that a backbone expects, as its first layer."""

from __future__ import annotations

from typing import Any

import tensorflow as tf
from tensorflow import keras

from common.errors import check_choice, invalid
from common.ops.shapes import InputShape

CHANNEL_ORDERS = ("rgb", "bgr")

# Of ImageNet's training images: for RGB scaled to [0, 1], and (caffe's convention) for BGR in 0..255.
IMAGENET_MEAN = (0.485, 0.456, 0.406)
IMAGENET_STD = (0.229, 0.224, 0.225)
CAFFE_MEAN_BGR = (103.939, 116.779, 123.68)


@keras.utils.register_keras_serializable(package="deep_metric_learning")
class InputNormalization(keras.layers.Layer):
    """Maps images in 0..255 to the inputs that the weights were trained on.

        output = (scale · image - mean) / std        (per channel, after an optional reversal of the channels)

    The arithmetic is in float32 for any precision policy: half precision is too coarse for 0..255. Grey images
    meet per-channel statistics by broadcasting: one channel in, three out, so that a colour network reads them.

    Args:
        mean: a number, or one per channel, in the units of `scale · image` and in the order of `channel_order`.
        std: likewise; greater than 0.
        scale: factor on the image before the mean is subtracted.
        channel_order: "rgb" keeps the channels, "bgr" reverses them first.

    Input shape: [batch, height, width, channels], RGB or grey, values 0..255, any numeric type.
    Output shape: the same; [batch, height, width, 3] for grey images and three means.

    Raises:
        InvalidInput: a standard deviation that is not positive, or an unknown channel order.
        ValueError: images with neither 1 channel nor as many as means.
    """

    def __init__(
        self,
        mean: float | list[float] | tuple[float, ...] = 0.0,
        std: float | list[float] | tuple[float, ...] = 1.0,
        scale: float = 1.0 / 255.0,
        channel_order: str = "rgb",
        **kwargs: Any,
    ) -> None:
        super().__init__(autocast=False, **kwargs)
        self.mean = _plain(mean)
        self.std = _plain(std)
        self.scale = float(scale)
        self.channel_order = check_choice("channel_order", channel_order, CHANNEL_ORDERS)
        if not tf.nest.flatten(self.std) or min(tf.nest.flatten(self.std)) <= 0:
            raise invalid("std", received=std, expected="numbers greater than 0")

    def build(self, input_shape: InputShape) -> None:
        """Check the number of channels; there are no weights."""
        num_means = max(len(tf.nest.flatten(self.mean)), len(tf.nest.flatten(self.std)))
        if num_means > 1 and input_shape[-1] not in (1, num_means):
            raise ValueError(
                f"InputNormalization received images of shape {tuple(input_shape)}, expected 1 channel or {num_means}, "
                "as many as there are means. Decode the images with that many."
            )
        super().build(input_shape)

    def call(self, inputs: tf.Tensor) -> tf.Tensor:
        """Normalise images [batch, height, width, channels]."""
        images = tf.cast(inputs, tf.float32)
        if self.channel_order == "bgr":
            images = images[..., ::-1]
        std = tf.constant(self.std, tf.float32)
        normalized = images * (self.scale / std) - tf.constant(self.mean, tf.float32) / std
        return tf.cast(normalized, self.compute_dtype)

    def get_config(self) -> dict:
        """Return the configuration that rebuilds this layer."""
        settings = {"mean": self.mean, "std": self.std, "scale": self.scale, "channel_order": self.channel_order}
        return {**super().get_config(), **settings}


def _plain(values: float | list[float] | tuple[float, ...]) -> float | list[float]:
    """Convert to a float or a list of floats, for saved configurations."""
    return [float(value) for value in values] if isinstance(values, (list, tuple)) else float(values)


def check_image_channels(input_channels: int) -> int:
    """Return `input_channels` if ImageNet networks can read them (1 or 3).

    Raises:
        InvalidInput: any other number.
    """
    if input_channels not in (1, 3):
        raise invalid("input_channels", received=input_channels, expected="3 (RGB) or 1 (grey)")
    return input_channels
