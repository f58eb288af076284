"""Uploaded photos: checked before decoding, and decoded to their end before use."""

from __future__ import annotations

import io

import numpy as np
from PIL import Image, UnidentifiedImageError

from common.data.image_files import decode_rgb
from common.data.image_formats import open_image, orientation_of, readable_formats, upright
from common.data.rgb_conversion import to_rgb
from common.errors import InvalidInput
from experiments.photos.shown import shown_text

FORMATS = tuple(name for name in ("JPEG", "PNG", "WEBP", "GIF", "BMP", "AVIF", "HEIF") if name in readable_formats())
LONGEST_SIDE = 30_000  # pixels
_ANIMATED = ("PNG", "WEBP", "GIF", "AVIF")  # a JPEG file of a phone may hold a second picture, which is no animation
_MEGA = 1_000_000


class Refused(InvalidInput):
    """A refused request.

    Args:
        status: of HTTP, 4xx or 503.
        message: the received and the expected value.
        seconds: after which it may be sent again, or None.
    """

    def __init__(self, status: int, message: str, seconds: int | None = None) -> None:
        super().__init__(message)
        self.status, self.seconds = status, seconds


def read_photo(contents: bytes, max_pixels: int, exif_orientation: bool = True) -> np.ndarray:
    """Return the pixels of an uploaded file.

    Only the header is read before the size check, so a small file that declares a huge picture costs nothing.

    Args:
        contents: of the file; its name and its declared type are not looked at.
        max_pixels: most pixels (width times height) of a photo.
        exif_orientation: turn the photo as its EXIF orientation says.

    Returns:
        uint8 `[height, width, 3]`.

    Raises:
        Refused: it is empty, in another format, animated, too large, or cannot be read to its end.
    """
    if not contents:
        raise Refused(422, "The file is empty; expected a photo.")
    try:
        with open_image(contents, FORMATS) as image:
            _check_size(image, max_pixels)
            animated = image.format in _ANIMATED and getattr(image, "is_animated", False)
    except Refused:
        raise
    except Image.DecompressionBombError as error:
        raise Refused(413, f"The photo declares too many pixels; {_most(max_pixels)}.") from error
    except UnidentifiedImageError as error:
        raise Refused(415, f"This is no photo in a known format; expected one of {', '.join(FORMATS)}.") from error
    except Exception as error:  # noqa: BLE001 (Pillow raises any exception on damaged files)
        raise _damaged(error) from error
    if animated:
        raise Refused(422, "The file is an animation; expected a single picture.")
    try:
        photo = decode_rgb(contents, exif_orientation)
    except Exception as error:  # noqa: BLE001 (as above)
        raise _damaged(error) from error
    if isinstance(photo, str):
        raise _damaged(photo)
    return np.asarray(photo)


def small_copy(contents: bytes, longer_side: int, max_pixels: int) -> bytes | str:
    """Convert an indexed photo to JPEG without metadata, or explain the failure.

    Args:
        contents: of the file.
        longer_side: most pixels in width and height.
        max_pixels: most pixels of the photo.
    """
    try:
        with open_image(contents) as image:
            _check_size(image, max_pixels)
            image.draft(None, (longer_side, longer_side))  # of JPEG files, pixels that are not needed are not computed
            small = upright(to_rgb(image), orientation_of(image))
    except Refused as error:
        return str(error)
    except Exception:  # noqa: BLE001 (as above)
        return "The file cannot be read as a picture."
    small.thumbnail((longer_side, longer_side), Image.Resampling.LANCZOS)
    file = io.BytesIO()
    small.save(file, "JPEG", quality=85)
    return file.getvalue()


def _check_size(image: Image.Image, max_pixels: int) -> None:
    width, height = image.size
    if width * height > max_pixels or max(width, height) > LONGEST_SIDE:
        raise Refused(413, f"The photo has {width:,} x {height:,} pixels; {_most(max_pixels)}. Make it smaller.")


def _most(max_pixels: int) -> str:
    return f"expected at most {max_pixels / _MEGA:g} megapixels, and {LONGEST_SIDE:,} pixels on the longer side"


def _damaged(reason: Exception | str) -> Refused:
    return Refused(422, f"The photo cannot be read ({shown_text(str(reason))[:200]}); expected a complete picture.")
