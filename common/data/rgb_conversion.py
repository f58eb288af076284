"""Any image as 8-bit RGB (sRGB): values keep their range, and transparency becomes white."""

from __future__ import annotations

import functools
import io
from collections.abc import Callable

import numpy as np
from PIL import Image, ImageCms

_BITS_PER_SAMPLE = 258  # tag of TIFF
_UNKNOWN_RANGE = {"I": "32-bit integers", "F": "floating-point numbers"}
_SIXTEEN_BITS_AS_INTEGERS = ("PNG", "PPM")  # formats that Pillow before 11 decoded to mode I, always from 16 bits
_COLOUR_SPACES = {"L": "GRAY", "RGB": "RGB", "CMYK": "CMYK"}  # of profiles, by the mode of the pixels
_MODES = {  # in which the pixels of an image are converted; grey ones of 16 bits after they are scaled
    **dict.fromkeys(("1", "L", "LA", "La", "I"), "L"),
    **dict.fromkeys(("RGB", "RGBA", "RGBa", "RGBX", "P", "PA", "YCbCr"), "RGB"),
    "CMYK": "CMYK",
}
_SAME = 2  # levels by which variants of sRGB differ, from rounding; the nearest other space (Rec. 709) differs by 16
_LARGEST_PROFILE = 4_000_000  # bytes; those of presses take about 2 MB


def to_rgb(image: Image.Image, applies_profile: bool = True) -> Image.Image:
    """Convert an image opened by Pillow: grey, palette, CMYK, 16-bit or transparent.

    16-bit grey values v become v / 257, rounded (12-bit ones of a TIFF file v x 255 / 4095): black stays black, and the
    greatest value that the file can hold becomes 255. Transparent pixels are composed with white.

    Args:
        image: as opened.
        applies_profile: convert colours to sRGB by `conversion_to_srgb`, before pixels are composed with white.

    Raises:
        ValueError: pixels without a known range (32-bit integers, floating-point numbers), or a colour space that
            Pillow does not convert to RGB.
        OSError: the file is not complete.
    """
    converted = (conversion_to_srgb(image) if applies_profile else None) or _plainly_converted
    image.load()  # of some formats, only then it is known what is transparent
    greatest = _greatest_value(image)
    if greatest is not None:
        return converted(_scaled(image, greatest))
    if image.mode in _UNKNOWN_RANGE:
        kind = _UNKNOWN_RANGE[image.mode]
        raise ValueError(f"its pixels are {kind}, whose white level is unknown; save it with 8 or 16 bits")
    if not image.has_transparency_data:
        return converted(image)
    transparent = image.convert("RGBA")
    layer = converted(transparent)
    layer.putalpha(transparent.getchannel("A"))
    white = Image.new("RGBA", layer.size, (255, 255, 255, 255))
    white.alpha_composite(layer)
    return white.convert("RGB")


def conversion_to_srgb(image: Image.Image) -> Callable[[Image.Image], Image.Image] | None:
    """Return the conversion from the colours of an image's embedded profile to RGB.

    Args:
        image: as opened.

    Returns:
        A function of the image's pixels; None without a profile, for one of sRGB itself, and for one that is damaged
        or of other colours than the image (a CMYK profile in an RGB file).
    """
    profile = image.info.get("icc_profile")
    mode = "L" if image.mode.startswith("I;16") else _MODES.get(image.mode)
    if not isinstance(profile, bytes) or mode is None or not 0 < len(profile) <= _LARGEST_PROFILE:
        return None
    return _conversion(profile, mode)


@functools.lru_cache(maxsize=16)
def _conversion(profile: bytes, mode: str) -> Callable[[Image.Image], Image.Image] | None:
    try:
        source = ImageCms.ImageCmsProfile(io.BytesIO(profile))
        if source.profile.xcolor_space.strip() != _COLOUR_SPACES[mode]:
            return None
        # As Adobe's programs do by default: white becomes white, and the deepest black black.
        intent, flags = ImageCms.Intent.RELATIVE_COLORIMETRIC, ImageCms.Flags.BLACKPOINTCOMPENSATION
        transform = ImageCms.buildTransform(source, ImageCms.createProfile("sRGB"), mode, "RGB", intent, flags)
    except (ImageCms.PyCMSError, OSError):
        return None

    def converted(image: Image.Image) -> Image.Image:
        return transform.apply(image.convert(mode))

    return None if mode != "CMYK" and _keeps(_colours(mode), converted) else converted


def _colours(mode: str) -> np.ndarray:
    """Return a sample `[1, colours, 3]` of all greys or of RGB."""
    if mode == "L":
        return np.repeat(np.arange(256, dtype=np.uint8)[None, :, None], 3, axis=2)
    levels = np.arange(0, 256, 15, dtype=np.uint8)
    return np.stack(np.meshgrid(levels, levels, levels), axis=-1).reshape(1, -1, 3)


def _keeps(colours: np.ndarray, converted: Callable[[Image.Image], Image.Image]) -> bool:
    found = np.asarray(converted(Image.fromarray(colours)), int)
    return bool(np.abs(found - colours).max() <= _SAME)


def _plainly_converted(image: Image.Image) -> Image.Image:
    return image.convert("RGB")


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
