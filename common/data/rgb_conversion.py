"""Any image as 8-bit RGB: values keep their range, and transparency becomes white."""

from __future__ import annotations

import numpy as np
from PIL import Image

_BITS_PER_SAMPLE = 258  # tag of TIFF
_UNKNOWN_RANGE = {"I": "32-bit integers", "F": "floating-point numbers"}
_SIXTEEN_BITS_AS_INTEGERS = ("PNG", "PPM")  # formats that Pillow before 11 decoded to mode I, always from 16 bits


def to_rgb(image: Image.Image) -> Image.Image:
    """Convert an image opened by Pillow: grey, palette, CMYK, 16-bit or transparent.

    16-bit grey values v become v / 257, rounded (12-bit ones of a TIFF file v x 255 / 4095): black stays black, and the
    greatest value that the file can hold becomes 255. Transparent pixels are composed with white.

    Raises:
        ValueError: pixels without a known range (32-bit integers, floating-point numbers), or a colour space that
            Pillow does not convert to RGB.
        OSError: the file is not complete.
    """
    image.load()  # of some formats, only then it is known what is transparent
    greatest = _greatest_value(image)
    if greatest is not None:
        return _scaled(image, greatest)
    if image.mode in _UNKNOWN_RANGE:
        kind = _UNKNOWN_RANGE[image.mode]
        raise ValueError(f"its pixels are {kind}, whose white level is unknown; save it with 8 or 16 bits")
    if not image.has_transparency_data:
        return image.convert("RGB")
    layer = image.convert("RGBA")
    white = Image.new("RGBA", layer.size, (255, 255, 255, 255))
    white.alpha_composite(layer)
    return white.convert("RGB")


def _greatest_value(image: Image.Image) -> int | None:
    """Return the greatest value of pixels of more than 8 bits, or None."""
    if image.mode.startswith("I;16"):
        bits = getattr(image, "tag_v2", {}).get(_BITS_PER_SAMPLE, (16,))[0]
        return 2**bits - 1
    return 65535 if image.mode == "I" and image.format in _SIXTEEN_BITS_AS_INTEGERS else None


def _scaled(image: Image.Image, greatest: int) -> Image.Image:
    values = np.asarray(image).astype(np.int64)  # of either byte order
    grey = (values * 255 + greatest // 2) // greatest
    transparent = image.info.get("transparency")
    if isinstance(transparent, int):
        grey[values == transparent] = 255
    return Image.fromarray(np.clip(grey, 0, 255).astype(np.uint8)).convert("RGB")
