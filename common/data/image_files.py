"""Reads image files: JPEG in TensorFlow, only the needed window; others through Pillow.

Both apply the EXIF orientation and the embedded colour profile, as every viewer does, unless another `Reading` is
asked for. (The orientation of a TIFF or HEIF file is part of that format: its decoder always applies it.) Transparent
pixels become white; 16-bit values are scaled; see `to_rgb`.
"""

from __future__ import annotations

import functools

import numpy as np
import tensorflow as tf
from PIL import Image, UnidentifiedImageError

from common.data.image_formats import (
    BYTE,
    EXIF_PREFIX,
    LONG,
    MOST_PARTS,
    ORIENTATION,
    WHOLE_NUMBERS,
    Reading,
    as_read,
    open_image,
    stored_traits,
    without_fill,
)
from common.data.images import ImageTransform, Seed, cut
from common.data.jpeg_soundness import jpeg_complaint
from common.data.regular_files import contents_of, unusable_image

_EXIF_SEGMENT, _PROFILE_SEGMENT, _START_OF_SCAN, _END_OF_IMAGE, _FILL = (
    0xE1,
    0xE2,
    0xDA,
    0xD9,
    0xFF,
)  # of JPEG's markers
_FILL_AT_ONCE = 1 << 16  # bytes of a run that a step looks at
_MOST_STEPS = 4 * MOST_PARTS  # a run of fill bytes takes one, and so do the pixels of a PNG file, by 8 kB
_DCT = "INTEGER_ACCURATE"  # the inverse transform that Pillow uses, as fast as the approximate one
_PADDING = bytes(16)  # behind a file, so that a few bytes can be read at every place in it


def decode_image(
    contents: tf.Tensor,
    name: tf.Tensor | str,
    transform: ImageTransform,
    seed: Seed = (0, 0),
    reading: Reading = Reading.SHOWN,
) -> tf.Tensor:
    """Decode a file's contents in a TensorFlow graph and transform.

    A complete JPEG file (from its start marker to its end marker) is decoded by `tf.image.decode_and_crop_jpeg`, which
    skips what `transform` does not need. Any other file (PNG, truncated or damaged) goes to Pillow, which is slower but
    reports the file and its fault. Damage between a JPEG file's start and end is not detected here: prepared copies
    have none, and `check_images` finds it in files that are used as they are.

    Args:
        contents: scalar string, of a file in a format that Pillow reads.
        name: scalar string, for the error.
        transform: choice of a window, and its processing.
        seed: int32 `[2]`, of the example.
        reading: of the file.

    Returns:
        uint8 `[size, size, 3]` RGB, where `size` is `transform.output_size`.

    Raises:
        tf.errors.InvalidArgumentError: they are no readable image; the message has the name.
    """
    is_jpeg = _is_complete_jpeg(contents)
    # Only what differs is inside the branches: a graph's optimiser does not look into them.
    orientation = None  # of JPEG files; others are turned by Pillow
    by_tensorflow = is_jpeg
    if reading >= Reading.UPRIGHT:
        shows = reading >= Reading.SHOWN
        nothing = tf.constant(1), tf.constant(False)
        orientation, may_have_profile = tf.cond(is_jpeg, lambda: _header(contents, to_its_end=shows), lambda: nothing)
        if shows:  # a profile that is none, or of sRGB, leaves the file to TensorFlow
            by_tensorflow &= ~tf.cond(may_have_profile, lambda: _has_profile(contents), lambda: nothing[1])
    pillow = functools.partial(_decode_by_pillow, name, contents, reading)
    decoded = tf.cond(by_tensorflow, lambda: tf.zeros([0, 0, 3], tf.uint8), pillow)
    shape = tf.cond(by_tensorflow, lambda: _jpeg_shape(contents, orientation), lambda: tf.shape(decoded))
    height, width = shape[0], shape[1]
    window = transform.window(height, width, seed)
    pixels = tf.cond(
        by_tensorflow,
        lambda: _decode_jpeg(contents, window, orientation),
        lambda: cut(decoded, window),
    )
    image = transform.finish(pixels, height, width, seed)
    return tf.ensure_shape(image, [transform.output_size, transform.output_size, 3])


def encoded_orientation(contents: tf.Tensor) -> tf.Tensor:
    """Return the EXIF orientation of a JPEG or PNG file in a TensorFlow graph.

    Args:
        contents: scalar string.

    Returns:
        Scalar int32, 1 to 8; 1 for files without one, for other formats, and if 4,000 parts precede it.
    """
    return _header(contents, to_its_end=False)[0]


def turned(image: tf.Tensor, orientation: tf.Tensor) -> tf.Tensor:
    """Turn `[height, width, channels]` by an EXIF orientation (1 to 8), in a graph."""

    def is_one_of(*orientations: int) -> tf.Tensor:
        return tf.reduce_any(tf.equal(orientation, orientations))

    image = tf.cond(orientation > 4, lambda: tf.transpose(image, [1, 0, 2]), lambda: image)
    image = tf.cond(is_one_of(2, 3, 6, 7), lambda: image[:, ::-1], lambda: image)
    return tf.cond(is_one_of(3, 4, 7, 8), lambda: image[::-1], lambda: image)


def load_rgb(contents: bytes, name: str, reading: Reading = Reading.SHOWN) -> Image.Image:
    """Decode a file's contents with Pillow to 8-bit RGB, as `to_rgb`.

    Args:
        contents: of the file.
        name: for the error.
        reading: of the file.

    Raises:
        InvalidInput: it cannot be read to its end, its data are damaged (see `jpeg_complaint`), or its values have no
            known range; the message has `name`.
    """
    image = decode_rgb(contents, reading)
    if isinstance(image, str):
        raise unusable_image(name, f"a complete image ({image})")
    return image


def decode_rgb(contents: bytes, reading: Reading = Reading.SHOWN) -> Image.Image | str:
    """Return an encoded image as 8-bit RGB, or the reason against it.

    Args:
        contents: of the file.
        reading: of the file.
    """
    try:
        contents = without_fill(contents)
        complaint = jpeg_complaint(contents)
        if complaint:
            return complaint
        with open_image(contents) as image:
            return as_read(image, reading)
    except UnidentifiedImageError:
        return "its format is unknown"
    except Exception as error:  # noqa: BLE001 (Pillow raises what it likes about damaged files)
        return str(error) or type(error).__name__


def complaint_about(path: str) -> str | None:
    """Return the reason why a file is no image to its end, or None."""
    contents = contents_of(path)
    image = contents if isinstance(contents, str) else decode_rgb(contents, Reading.STORED)
    return image if isinstance(image, str) else None


def _is_complete_jpeg(contents: tf.Tensor) -> tf.Tensor:
    last = tf.maximum(tf.strings.length(contents) - 2, 0)  # an empty file has a start and an end, too
    start_and_end = tf.strings.substr(contents, tf.stack([0, last]), [3, 2])
    return tf.reduce_all(tf.equal(start_and_end, [b"\xff\xd8\xff", b"\xff\xd9"]))


def _header(contents: tf.Tensor, to_its_end: bool) -> tuple[tf.Tensor, tf.Tensor]:
    """Return the EXIF orientation, and whether there may be a colour profile.

    Args:
        contents: scalar string, of a JPEG or PNG file.
        to_its_end: look for a profile, too, in JPEG files alone; else a found orientation ends the search.
    """
    size = tf.cast(tf.strings.length(contents), tf.int64)
    padded = tf.strings.join([contents, _PADDING])
    is_png = tf.equal(tf.strings.substr(padded, 0, 8), b"\x89PNG\r\n\x1a\n")

    def run_of_fill(place: tf.Tensor) -> tf.Tensor:
        """Count the fill bytes at `place`, without the last of them."""
        ahead = tf.io.decode_raw(tf.strings.substr(padded, place, _FILL_AT_ONCE), tf.uint8)
        return tf.argmax(tf.concat([tf.cast(tf.not_equal(ahead, _FILL), tf.int32), [1]], axis=0)) - 1

    def step(place: tf.Tensor, exif: tf.Tensor, has_profile: tf.Tensor, goes_on: tf.Tensor) -> tuple[tf.Tensor, ...]:
        """Advance to the next chunk (length, name, ...) or segment (marker, length, ...)."""
        head = _bytes_at(padded, place, 8)
        chunk, segment = _number(head[:4]), _number(head[2:4])
        is_exif = tf.where(
            is_png,
            tf.equal(tf.strings.substr(padded, place + 4, 4), b"eXIf"),
            tf.equal(head[1], _EXIF_SEGMENT) & tf.equal(tf.strings.substr(padded, place + 4, 6), EXIF_PREFIX),
        )
        is_profile = tf.equal(head[1], _PROFILE_SEGMENT) & tf.equal(tf.strings.substr(padded, place + 4, 4), b"ICC_")
        is_strange = tf.not_equal(head[0], _FILL)
        is_last = tf.equal(head[1], _START_OF_SCAN) | tf.equal(head[1], _END_OF_IMAGE) | is_strange
        is_fill = ~is_png & tf.reduce_all(tf.equal(head[:2], _FILL))
        width = tf.cond(is_fill, lambda: run_of_fill(place), lambda: tf.where(is_png, 12 + chunk, 2 + segment))
        start, inside = tf.where(is_png, place + 8, place + 4), tf.where(is_png, chunk, segment - 2)
        exif = tf.where(is_exif & tf.equal(exif[1], 0), tf.stack([start, inside]), exif)  # the first
        goes_on = (is_png | ~is_last) & (to_its_end | ~is_exif)
        return place + width, exif, has_profile | is_profile | is_strange, goes_on

    _, exif, has_profile, goes_on = tf.while_loop(
        lambda place, exif, has_profile, goes_on: goes_on & (place < size),
        step,
        (tf.where(is_png, tf.constant(8, tf.int64), 2), tf.zeros(2, tf.int64), tf.constant(False), tf.constant(True)),
        maximum_iterations=_MOST_STEPS,
    )
    orientation = _orientation_in(tf.strings.substr(padded, tf.minimum(exif[0], size), tf.maximum(exif[1], 0)))
    return orientation, has_profile | goes_on


def _bytes_at(contents: tf.Tensor, place: tf.Tensor | int, count: int) -> tf.Tensor:
    found = tf.io.decode_raw(tf.strings.substr(contents, place, count), tf.uint8)
    return tf.cast(tf.ensure_shape(found, [count]), tf.int64)


def _number(digits: tf.Tensor, is_little: tf.Tensor | bool = False) -> tf.Tensor:
    """Read numbers `[...]` from bytes `[..., bytes]`."""
    powers = np.array([256**power for power in range(digits.shape[-1])], np.int64)
    return tf.reduce_sum(digits * tf.where(is_little, powers, powers[::-1]), axis=-1)


def _orientation_in(exif: tf.Tensor) -> tf.Tensor:
    """Return the orientation in Exif data, a small TIFF file; 1 without one."""
    has_prefix = tf.equal(tf.strings.substr(tf.strings.join([exif, _PADDING]), 0, 6), EXIF_PREFIX)
    size = tf.cast(tf.strings.length(exif), tf.int64)
    exif = tf.strings.substr(exif, tf.where(has_prefix, tf.constant(6, tf.int64), 0), size)
    size = tf.cast(tf.strings.length(exif), tf.int64)
    exif = tf.strings.join([exif, _PADDING])
    order = tf.strings.substr(exif, 0, 2)
    is_little = tf.equal(order, b"II")
    directory = tf.minimum(_number(_bytes_at(exif, 4, 4), is_little), size)
    count = tf.minimum(_number(_bytes_at(exif, directory, 2), is_little), (size - directory - 2) // 12)
    entries = tf.io.decode_raw(tf.strings.substr(exif, directory + 2, 12 * tf.maximum(count, 0)), tf.uint8)
    entries = tf.cast(tf.reshape(entries, [-1, 6, 2]), tf.int64)  # of two bytes: tag, type, ..., value
    values = _number(entries, is_little)
    # The value's type has 1, 2 or 4 bytes, of which the other ones of the field may be anything.
    short = values[:, 4]
    byte = _number(entries[:, 4, :1])
    long = tf.where(is_little, short + 65536 * values[:, 5], 65536 * short + values[:, 5])
    stored = tf.where(tf.equal(values[:, 1], BYTE), byte, tf.where(tf.equal(values[:, 1], LONG), long, short))
    is_whole = tf.reduce_any(tf.equal(values[:, 1, tf.newaxis], list(WHOLE_NUMBERS)), axis=1)
    is_found = tf.equal(values[:, 0], ORIENTATION) & is_whole
    found = tf.concat([tf.boolean_mask(stored, is_found), [1]], axis=0)[0]
    is_known = (is_little | tf.equal(order, b"MM")) & (found >= 1) & (found <= 8)
    return tf.cast(tf.where(is_known, found, 1), tf.int32)


def _jpeg_shape(contents: tf.Tensor, orientation: tf.Tensor | None) -> tf.Tensor:
    shape = tf.image.extract_jpeg_shape(contents)
    return shape if orientation is None else tf.where(orientation > 4, tf.gather(shape, [1, 0, 2]), shape)


def _decode_jpeg(contents: tf.Tensor, window: tf.Tensor, orientation: tf.Tensor | None) -> tf.Tensor:
    def stored() -> tf.Tensor:
        return tf.image.decode_and_crop_jpeg(contents, window, channels=3, dct_method=_DCT)

    def whole() -> tf.Tensor:
        return tf.image.decode_jpeg(contents, channels=3, dct_method=_DCT)

    if orientation is None:
        return stored()
    return tf.cond(tf.equal(orientation, 1), stored, lambda: cut(turned(whole(), orientation), window))


def _decode_by_pillow(path: tf.Tensor | str, contents: tf.Tensor, reading: Reading) -> tf.Tensor:
    pixels = functools.partial(_pixels, reading=reading)
    return tf.ensure_shape(tf.numpy_function(pixels, [path, contents], tf.uint8), [None, None, 3])


def _has_profile(contents: tf.Tensor) -> tf.Tensor:
    found = tf.py_function(lambda each: stored_traits(each.numpy()).has_profile, [contents], tf.bool)
    return tf.ensure_shape(found, [])


def _pixels(path: bytes, contents: bytes, reading: Reading) -> np.ndarray:
    return np.asarray(load_rgb(contents, path.decode("utf-8", "replace"), reading))
