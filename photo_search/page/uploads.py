"""Uploaded photos: checked before decoding, and decoded to their end before use."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from PIL import Image, UnidentifiedImageError

from common.data.image_files import decode_rgb
from common.data.image_formats import Reading, open_image, readable_formats
from common.errors import InvalidInput
from photo_search.photos.shown import shown_text

FORMATS = tuple(name for name in ("JPEG", "PNG", "WEBP", "GIF", "BMP", "AVIF", "HEIF") if name in readable_formats())
LONGEST_SIDE = 30_000  # pixels
_ANIMATED = ("PNG", "WEBP", "GIF", "AVIF")  # a JPEG file of a phone may hold a second picture, which is no animation
_FEWEST_PIXELS = 8  # on a side of a crop
_MEGA = 1_000_000


class Refused(InvalidInput):
    """A refused request, with an HTTP status and the seconds to wait."""

    def __init__(self, status: int, message: str, seconds: int | None = None) -> None:
        super().__init__(message)
        self.status, self.seconds = status, seconds


def read_photo(contents: bytes, max_pixels: int, reading: Reading = Reading.SHOWN) -> np.ndarray:
    """Return the pixels of an uploaded file, uint8 `[height, width, 3]`.

    Only the header is read before the size check, so a small file that declares a huge picture costs nothing. The
    file's name and declared type are ignored.
    """
    if not contents:
        raise Refused(422, "The file is empty; expected a photo.")
    most = f"expected at most {max_pixels / _MEGA:g} megapixels, and {LONGEST_SIDE:,} pixels on the longer side"
    try:
        with open_image(contents, FORMATS) as image:
            width, height = image.size
            if width * height > max_pixels or max(width, height) > LONGEST_SIDE:
                raise Refused(413, f"The photo has {width:,} x {height:,} pixels; {most}. Make it smaller.")
            animated = image.format in _ANIMATED and getattr(image, "is_animated", False)
    except Refused:
        raise
    except Image.DecompressionBombError as error:
        raise Refused(413, f"The photo declares too many pixels; {most}.") from error
    except UnidentifiedImageError as error:
        raise Refused(415, f"This is no photo in a known format; expected one of {', '.join(FORMATS)}.") from error
    except Exception as error:  # noqa: BLE001 (Pillow raises any exception on damaged files)
        raise _damaged(error) from error
    if animated:
        raise Refused(422, "The file is an animation; expected a single picture.")
    try:
        photo = decode_rgb(contents, reading)
    except Exception as error:  # noqa: BLE001 (as above)
        raise _damaged(error) from error
    if isinstance(photo, str):
        raise _damaged(photo)
    return np.asarray(photo)


def ending_of(contents: bytes) -> str:
    """Return the ending of a file's name, by its format."""
    with open_image(contents, FORMATS) as image:
        return str(image.format).lower()


class Crop(NamedTuple):
    """Rectangle of a photo, in shares of its sides."""

    left: float
    top: float
    right: float
    bottom: float

    @classmethod
    def of(cls, text: str) -> Crop:
        """Read a text LEFT,TOP,RIGHT,BOTTOM; refuse others."""
        try:
            left, top, right, bottom = (float(value) for value in text.split(","))
        except ValueError:
            left = top = right = bottom = 0.0
        if not (0 <= left < right <= 1 and 0 <= top < bottom <= 1):
            expected = "LEFT,TOP,RIGHT,BOTTOM, shares of width and height from 0 to 1, such as 0.1,0.2,0.6,0.9"
            raise Refused(422, f"Received a crop that is no rectangle of the photo; expected {expected}.")
        return cls(left, top, right, bottom)

    def cut(self, photo: np.ndarray) -> np.ndarray:
        """Return this part of a photo `[height, width, 3]`, its edges rounded to pixels."""
        height, width = photo.shape[:2]
        left, right = round(self.left * width), round(self.right * width)
        top, bottom = round(self.top * height), round(self.bottom * height)
        if min(right - left, bottom - top) < _FEWEST_PIXELS:
            received = f"{right - left} x {bottom - top} pixels"
            raise Refused(422, f"The crop has {received}; expected at least {_FEWEST_PIXELS} on each side.")
        return photo[top:bottom, left:right]


def _damaged(reason: Exception | str) -> Refused:
    return Refused(422, f"The photo cannot be read ({shown_text(str(reason))[:200]}); expected a complete picture.")
