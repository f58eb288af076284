"""Reads image files: JPEG files decoded in TensorFlow, only the window that is needed; all else through Pillow.

EXIF orientation is ignored on both ways, as the published code and torchvision ignore it. (The orientation of a TIFF
file is part of that format: Pillow applies it, in training, evaluation and prepared copies alike.) Transparent pixels
lie on white; 16-bit values are scaled; see `to_rgb`.
"""

from __future__ import annotations

import io
import os
from typing import BinaryIO

import numpy as np
import tensorflow as tf
from PIL import Image, UnidentifiedImageError

from common.data.images import ImageTransform, cut
from common.data.jpeg_soundness import jpeg_complaint
from common.data.regular_files import read_regular_file
from common.data.rgb_conversion import to_rgb
from common.errors import invalid

UNREADABLE = (OSError, SyntaxError, ValueError, Image.DecompressionBombError)


def read_image(path: tf.Tensor, transform: ImageTransform, seed: tf.Tensor | tuple[int, int] = (0, 0)) -> tf.Tensor:
    """Reads a file in a TensorFlow graph and transforms it.

    A complete JPEG file (from its start marker to its end marker) is decoded by `tf.image.decode_and_crop_jpeg`, which
    leaves out what `transform` does not need. Anything else (PNG, a truncated or damaged file) goes to Pillow, which is
    slower but can say what is wrong with which file. Damage between a JPEG file's start and end is not seen here:
    prepared copies have none, and `check_images` finds it in files that are used as they are.

    Args:
        path: scalar string.
        transform: which window is needed, and what is made of it.
        seed: int32 `[2]`, of the example.

    Returns:
        uint8 `[size, size, 3]` RGB, where `size` is `transform.output_size`.

    Raises:
        tf.errors.NotFoundError: no such file; the message has its name.
        tf.errors.InvalidArgumentError: the file is no readable image; the message has its name.
    """
    return decode_image(tf.io.read_file(path), path, transform, seed)


def decode_image(
    contents: tf.Tensor, name: tf.Tensor | str, transform: ImageTransform, seed: tf.Tensor | tuple[int, int] = (0, 0)
) -> tf.Tensor:
    """Decodes a file's contents in a TensorFlow graph and transforms the image, as `read_image` does.

    Args:
        contents: scalar string, of a file in a format that Pillow reads.
        name: scalar string, for the error.
        transform: which window is needed, and what is made of it.
        seed: int32 `[2]`, of the example.

    Returns:
        uint8 `[size, size, 3]` RGB, where `size` is `transform.output_size`.

    Raises:
        tf.errors.InvalidArgumentError: they are no readable image; the message has the name.
    """
    is_jpeg = _is_complete_jpeg(contents)
    # Only what differs is inside the branches: a graph's optimiser does not look into them.
    shape = tf.cond(is_jpeg, lambda: tf.image.extract_jpeg_shape(contents), lambda: _shape_by_pillow(name, contents))
    height, width = shape[0], shape[1]
    window = transform.window(height, width, seed)
    pixels = tf.cond(
        is_jpeg, lambda: _decode_jpeg(contents, window), lambda: cut(_decode_by_pillow(name, contents), window)
    )
    image = transform.finish(pixels, height, width, seed)
    return tf.ensure_shape(image, [transform.output_size, transform.output_size, 3])


def load_rgb(source: str | os.PathLike | BinaryIO, name: str) -> Image.Image:
    """Decodes a file, or a binary stream from its beginning, with Pillow to 8-bit RGB, as `to_rgb` does.

    Raises:
        InvalidInput: it cannot be read to its end, its data are damaged (see `jpeg_complaint`), or its values have no
            known range; the message has `name`.
    """
    if isinstance(source, (str, os.PathLike)):
        contents = read_regular_file(source)
    else:
        source.seek(0)
        contents = source.read()
    image = decode_rgb(contents)
    if isinstance(image, str):
        raise invalid(
            "image file",
            received=name,
            expected=f"a complete image ({image})",
            fix="Fetch or extract the file again, or take it out of the data set.",
        )
    return image


def decode_rgb(contents: bytes) -> Image.Image | str:
    """The image in a file's contents as 8-bit RGB, or a phrase that says why there is none."""
    complaint = jpeg_complaint(contents)
    if complaint:
        return complaint
    try:
        with Image.open(io.BytesIO(contents)) as image:
            return to_rgb(image)
    except UNREADABLE as error:
        return "its format is unknown" if isinstance(error, UnidentifiedImageError) else str(error)


def _is_complete_jpeg(contents: tf.Tensor) -> tf.Tensor:
    last = tf.maximum(tf.strings.length(contents) - 2, 0)  # an empty file has a start and an end, too
    start_and_end = tf.strings.substr(contents, tf.stack([0, last]), [3, 2])
    return tf.reduce_all(tf.equal(start_and_end, [b"\xff\xd8\xff", b"\xff\xd9"]))


def _decode_jpeg(contents: tf.Tensor, window: tf.Tensor) -> tf.Tensor:
    # The accurate inverse transform is what Pillow uses, and it is as fast as the approximate one.
    return tf.image.decode_and_crop_jpeg(contents, window, channels=3, dct_method="INTEGER_ACCURATE")


def _shape_by_pillow(path: tf.Tensor | str, contents: tf.Tensor) -> tf.Tensor:
    return tf.ensure_shape(tf.numpy_function(_shape_of_pixels, [path, contents], tf.int32), [3])


def _decode_by_pillow(path: tf.Tensor | str, contents: tf.Tensor) -> tf.Tensor:
    return tf.ensure_shape(tf.numpy_function(_pixels, [path, contents], tf.uint8), [None, None, 3])


def _shape_of_pixels(path: bytes, contents: bytes) -> np.ndarray:
    return np.array(_pixels(path, contents).shape, np.int32)


def _pixels(path: bytes, contents: bytes) -> np.ndarray:
    return np.asarray(load_rgb(io.BytesIO(contents), path.decode("utf-8", "replace")))
