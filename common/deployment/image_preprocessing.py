"""The evaluation's preprocessing of images: the first layer of a deployed model."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import tensorflow as tf
from tensorflow import keras

from common.data import CenterCrop, NativeCrop
from common.data.image_formats import Reading
from common.data.images import ResizedCenter
from common.errors import check_choice, check_positive, invalid
from common.ops.shapes import InputShape

CROPS: dict[str, type[ResizedCenter]] = {"center": CenterCrop, "native": NativeCrop}


def check_not_scaled(arrays: Sequence[np.ndarray]) -> None:
    """Refuse images scaled to 0..1, which would be black.

    Those are fractions of at most 1. A dark picture has whole numbers, or brighter ones beside it.
    """
    if all(array.dtype.kind == "f" and array.size for array in arrays):
        greatest = max(float(array.max()) for array in arrays)
        if 0 < greatest <= 1 and any(np.mod(array, 1).any() for array in arrays):
            least = min(float(array.min()) for array in arrays)
            raise invalid(
                "images",
                received=f"values from {least:g} to {greatest:g}",
                expected="numbers in 0..255",
                fix="Multiply images that are scaled to 0..1 by 255.",
            )


@keras.utils.register_keras_serializable(package="deep_metric_learning")
class ImagePreprocessing(keras.layers.Layer):
    """Resizes the shorter side of images, takes the centre, and rounds pixels to integers.

    The computation is that of evaluation (`CenterCrop`, `NativeCrop`): half-pixel centres, bilinear, with a low-pass
    filter where an image shrinks. An image whose shorter side is right already is only cropped.

    During training and evaluation, image files are read from prepared copies: JPEG files of quality 95 that Pillow has
    resized to the same shorter side. On a copy this layer gives the same pixels; on the original file they differ by
    that compression and by rounding (`experiments.export` measures by how much for the run's own images).

    Args:
        image_size: height and width of the result in pixels, > 0.
        crop: "center": the shorter side is resized to 256/227 of `image_size` first (image files); "native": to
            `image_size` (data sets whose images all have that size).
        antialias: low-pass filter where images shrink.
        reading: how files and encoded images are decoded before they come here; this layer only keeps it. Models of
            older versions keep theirs: they ignore colour profiles, and the oldest also the EXIF orientation.

    Input shape:
        `[batch, height, width, channels]`, values 0..255 (values outside are clipped; in eager mode, fractions of at
        most 1 are refused, since they are images scaled to 0..1).

    Output shape:
        `[batch, image_size, image_size, channels]` float32, whole numbers in 0..255. No gradient.
    """

    supports_jit = False  # XLA needs sizes that are known

    def __init__(
        self,
        image_size: int,
        crop: str = "center",
        antialias: bool = True,
        reading: Reading = Reading.SHOWN,
        **kwargs: Any,
    ) -> None:
        super().__init__(autocast=False, **kwargs)
        self.image_size = int(check_positive("image_size", image_size))
        self.crop = check_choice("crop", crop, CROPS)
        self.antialias = bool(antialias)
        self.reading = Reading(reading)

    @property
    def transform(self) -> ResizedCenter:
        """The same for one image `[height, width, channels]`, to uint8."""
        return CROPS[self.crop](self.image_size, self.antialias)

    def call(self, images: tf.Tensor) -> tf.Tensor:  # noqa: D102
        if tf.executing_eagerly() and isinstance(images, tf.Tensor):
            check_not_scaled([np.asarray(images)])
        return self.prepared(images)

    def prepared(self, images: tf.Tensor) -> tf.Tensor:
        """Resize and crop images whose range is known."""
        images = tf.clip_by_value(tf.cast(images, tf.float32), 0.0, 255.0)
        shape = [self.image_size, self.image_size, images.shape[-1]]

        def prepared(image: tf.Tensor) -> tf.Tensor:
            return tf.ensure_shape(tf.cast(self.transform(image), tf.float32), shape)

        plain = tf.autograph.experimental.do_not_convert(prepared)
        return tf.map_fn(plain, images, fn_output_signature=tf.TensorSpec(shape, tf.float32))

    def compute_output_shape(self, input_shape: InputShape) -> tuple[int | None, ...]:  # noqa: D102
        return (input_shape[0], self.image_size, self.image_size, input_shape[-1])

    def get_config(self) -> dict:  # noqa: D102
        settings = {"image_size": self.image_size, "crop": self.crop, "antialias": self.antialias}
        return {**super().get_config(), **settings, "reading": int(self.reading)}

    @classmethod
    def from_config(cls, config: dict) -> ImagePreprocessing:  # noqa: D102
        config = dict(config)
        of_before = config.pop("exif_orientation", False)  # of versions that ignored profiles
        return cls(**{"reading": Reading(of_before), **config})
