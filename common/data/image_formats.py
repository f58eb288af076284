"""Formats of image files: opening a file, EXIF orientation, and skipped files."""

from __future__ import annotations

import functools
import io
import os
from collections import Counter
from collections.abc import Iterable
from typing import Literal

from PIL import Image, features

# Formats that Pillow decodes by itself and knows by a signature. Left out: EPS, which starts Ghostscript, and formats
# whose parts Pillow opens by their contents (IPTC, FlashPix), which would start it, too.
_ENDINGS = {
    "AVIF": (".avif", ".avifs"),
    "BMP": (".bmp",),
    "GIF": (".gif",),
    "HEIF": (".heic", ".heif", ".heics", ".heifs", ".hif"),  # of the extra `heif`
    "JPEG": (".jpg", ".jpeg", ".jpe", ".jfif"),
    "JPEG2000": (".jp2", ".j2k", ".j2c", ".jpc", ".jpf", ".jpx"),
    "PCX": (".pcx",),
    "PNG": (".png", ".apng"),
    "PPM": (".ppm", ".pgm", ".pbm", ".pnm", ".pfm"),
    "PSD": (".psd",),
    "QOI": (".qoi",),
    "SGI": (".sgi", ".rgb", ".rgba", ".bw"),
    "TIFF": (".tif", ".tiff"),
    "WEBP": (".webp",),
}
_PARTS_OF_PILLOW = {"AVIF": "avif", "JPEG2000": "jpg_2000", "WEBP": "webp"}  # which a build may lack
_UPRIGHT = {  # what brings the pixels of a file with this EXIF orientation upright
    2: Image.Transpose.FLIP_LEFT_RIGHT,
    3: Image.Transpose.ROTATE_180,
    4: Image.Transpose.FLIP_TOP_BOTTOM,
    5: Image.Transpose.TRANSPOSE,
    6: Image.Transpose.ROTATE_270,
    7: Image.Transpose.TRANSVERSE,
    8: Image.Transpose.ROTATE_90,
}
EXIF_PREFIX = b"Exif\0\0"
ORIENTATION, SHORT = 0x0112, 3  # the tag, and the type of its value
_BYTE_ORDERS: dict[bytes, Literal["little", "big"]] = {b"II": "little", b"MM": "big"}
_MOST_ENDINGS = 8  # that a phrase names


@functools.cache
def readable_formats() -> tuple[str, ...]:
    """Return Pillow's names of the formats that are read here."""
    try:
        import pillow_heif  # an extra

        pillow_heif.register_heif_opener()
    except ImportError:
        pass
    Image.init()
    return tuple(name for name in _ENDINGS if name in Image.OPEN and _is_in_pillow(name))


def is_image_name(name: str) -> bool:
    """Return whether a file's name has the ending of a readable format."""
    return _format_of(_ending(name)) in readable_formats()


def open_image(contents: bytes, formats: Iterable[str] | None = None) -> Image.Image:
    """Open an image of a supported format without decoding its pixels.

    Args:
        contents: of the file.
        formats: of `readable_formats`; None for all of them.

    Raises:
        PIL.UnidentifiedImageError: another format.
        Exception: of damaged files, Pillow raises exceptions of any type.
    """
    return Image.open(io.BytesIO(contents), formats=tuple(formats or readable_formats()))


def stored_orientation(contents: bytes) -> int:
    """Return the EXIF orientation of an image file, 1 to 8; default 1.

    The orientation of TIFF and HEIF files is part of these formats: their decoders apply it, and it counts as 1.
    """
    try:
        with open_image(contents) as image:
            if image.format == "PNG" and "exif" not in image.info and b"eXIf" in contents:
                image.load()  # the chunk is behind the pixels
            return orientation_of(image)
    except Exception:  # noqa: BLE001 (Pillow raises what it likes about damaged files)
        return 1


def orientation_of(image: Image.Image) -> int:
    """Return the `stored_orientation` of an image that Pillow has opened."""
    exif = image.info.get("exif") or b""
    exif = exif.removeprefix(EXIF_PREFIX)
    order = _BYTE_ORDERS.get(exif[:2])
    if order is None or image.format == "TIFF":
        return 1
    directory = int.from_bytes(exif[4:8], order)
    count = int.from_bytes(exif[directory : directory + 2], order)
    for start in range(directory + 2, min(directory + 2 + 12 * count, len(exif) - 11), 12):
        tag, kind, value = (int.from_bytes(exif[start + place : start + place + 2], order) for place in (0, 2, 8))
        if (tag, kind) == (ORIENTATION, SHORT):
            return value if 1 <= value <= 8 else 1
    return 1


def upright(image: Image.Image, orientation: int) -> Image.Image:
    """Turn an image as its EXIF orientation (1 to 8) says."""
    return image if orientation == 1 else image.transpose(_UPRIGHT[orientation])


def left_out(names: Iterable[str]) -> str:
    """Count files by their endings in one phrase.

    Such as "left out: 3 files (.heic 2: pip install 'deep-metric-learning[heif]', .txt 1)".

    Args:
        names: of the files; none gives "".
    """
    counts = Counter(map(_ending, names))
    if not counts:
        return ""
    endings = sorted(counts.items(), key=lambda each: (-each[1], each[0]))
    found = [f"{_shown(ending)} {count}{_cure(ending)}" for ending, count in endings[:_MOST_ENDINGS]]
    others = sum(count for _, count in endings[_MOST_ENDINGS:])
    found += [f"others {others}"] if others else []
    total = counts.total()
    return f"left out: {total} file{'s' if total > 1 else ''} ({', '.join(found)})"


def _is_in_pillow(name: str) -> bool:
    return name not in _PARTS_OF_PILLOW or bool(features.check(_PARTS_OF_PILLOW[name]))


def _ending(name: str) -> str:
    return os.path.splitext(name)[1].lower()


def _shown(ending: str) -> str:
    return (ending if ending.isprintable() else ascii(ending)[1:-1]) or "without an ending"


def _format_of(ending: str) -> str | None:
    return next((name for name, endings in _ENDINGS.items() if ending in endings), None)


def _cure(ending: str) -> str:
    """Return how to make files with this ending readable."""
    name = _format_of(ending)
    if name is None or name in readable_formats():
        return ""
    return ": pip install 'deep-metric-learning[heif]'" if name == "HEIF" else ": pip install --upgrade pillow"
