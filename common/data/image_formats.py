"""Formats of image files: opening, orientation and colours, and skipped files."""

from __future__ import annotations

import enum
import functools
import io
import os
import re
from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Literal, NamedTuple

from PIL import Image, features

from common.data.rgb_conversion import conversion_to_srgb, to_rgb

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
ORIENTATION = 0x0112  # the tag
BYTE, SHORT, LONG = 1, 3, 4  # types of values
WHOLE_NUMBERS = {BYTE: 1, SHORT: 2, LONG: 4}  # bytes of each
MOST_PARTS = 1_000  # of a JPEG or PNG file beside its pixels; a photo has about 20
_MOST_SCANS = 100  # of a JPEG file: each is a pass over all pixels; a progressive one has about 10
_BYTE_ORDERS: dict[bytes, Literal["little", "big"]] = {b"II": "little", b"MM": "big"}
_JPEG, _PNG = b"\xff\xd8\xff", b"\x89PNG\r\n\x1a\n"
START_OF_SCAN, END_OF_IMAGE = b"\xda", b"\xd9"  # markers of JPEG files
_FILL = re.compile(rb"\xff+")
_NEXT_MARKER = re.compile(rb"\xff[^\x00\xff\xd0-\xd7]")  # behind a scan's data: no stuffed or fill byte, no restart
_MOST_ENDINGS = 8  # that a phrase names

COPIES = ("exact", "compressed")  # of prepared images


class Reading(enum.IntEnum):
    """How the pixels of a file become an image.

    Each reading does more than the one before. Models keep its number. Before profiles were known, they kept False for
    `STORED` or True for `UPRIGHT`.
    """

    STORED = 0  # as the published code and torchvision read them; the published data sets
    UPRIGHT = 1  # turned as the EXIF orientation says; models and runs of older versions
    SHOWN = 2  # also in the colours of the embedded profile, as a viewer shows them; photos of users


class Traits(NamedTuple):
    """What makes the readings of a file differ.

    The orientation of TIFF and HEIF files is part of these formats: their decoders apply it, and it counts as 1.
    """

    orientation: int = 1  # of EXIF, 1 to 8
    has_profile: bool = False  # see `conversion_to_srgb`


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
        ValueError: more parts than `without_fill` allows.
        Exception: of damaged files, Pillow raises exceptions of any type.
    """
    contents = without_fill(contents)
    return Image.open(io.BytesIO(contents), formats=tuple(formats or readable_formats()))


def without_fill(contents: bytes) -> bytes:
    """Remove the fill bytes between the parts of a JPEG file.

    Pillow takes a step in Python for each of these bytes, and for each part of a file.

    Raises:
        ValueError: a JPEG or PNG file of more than `MOST_PARTS` parts, or of more than 100 scans.
    """
    if contents.startswith(_PNG):
        _check_chunks(contents)
    if not contents.startswith(_JPEG):
        return contents
    kept, begin, scans = [], 0, 0
    for parts, (place, marker, kind) in enumerate(jpeg_parts(contents), start=1):
        if marker > place + 1:
            kept.append(contents[begin:place])
            begin = marker - 1
        if parts > MOST_PARTS:
            raise _too_many_parts(MOST_PARTS, "parts")
        scans += kind == START_OF_SCAN
        if scans > _MOST_SCANS:
            raise _too_many_parts(_MOST_SCANS, "scans")
        if kind == START_OF_SCAN and contents.count(b"\xff" + START_OF_SCAN, marker) <= _MOST_SCANS - scans:
            break
    return b"".join([*kept, contents[begin:]]) if kept else contents


def jpeg_parts(contents: bytes) -> Iterator[tuple[int, int, bytes]]:
    """Yield the begin, the marker's place and the marker of each JPEG part."""
    place = 2
    while contents[place : place + 1] == b"\xff":
        marker = _FILL.match(contents, place).end()  # type: ignore[union-attr]
        kind = contents[marker : marker + 1]
        yield place, marker, kind
        if kind == END_OF_IMAGE:
            return
        place = marker + 1 + int.from_bytes(contents[marker + 1 : marker + 3], "big")
        if kind == START_OF_SCAN:
            found = _NEXT_MARKER.search(contents, place)
            if found is None:
                return
            place = found.start()


def _check_chunks(contents: bytes) -> None:
    place, parts = len(_PNG), 0
    while place < len(contents):
        parts += contents[place + 4 : place + 8] != b"IDAT"
        if parts > MOST_PARTS:
            raise _too_many_parts(MOST_PARTS, "parts")
        place += 12 + int.from_bytes(contents[place : place + 4], "big")


def _too_many_parts(most: int, what: str) -> ValueError:
    return ValueError(f"it has more than {most:,} {what}; save it again")


def stored_traits(contents: bytes) -> Traits:
    """Return what makes the readings of an image file differ.

    A damaged file has the default.
    """
    try:
        with open_image(contents) as image:
            if image.format == "PNG" and "exif" not in image.info and b"eXIf" in contents:
                image.load()  # the chunk is behind the pixels
            return Traits(_orientation_of(image), conversion_to_srgb(image) is not None)
    except Exception:  # noqa: BLE001 (Pillow raises what it likes about damaged files)
        return Traits()


def as_read(image: Image.Image, reading: Reading) -> Image.Image:
    """Convert an image that Pillow has opened to 8-bit RGB, as `to_rgb`."""
    rgb = to_rgb(image, applies_profile=reading >= Reading.SHOWN)
    orientation = _orientation_of(image) if reading >= Reading.UPRIGHT else 1
    return rgb if orientation == 1 else rgb.transpose(_UPRIGHT[orientation])


def _orientation_of(image: Image.Image) -> int:
    exif = image.info.get("exif") or b""
    exif = exif.removeprefix(EXIF_PREFIX)
    order = _BYTE_ORDERS.get(exif[:2])
    if order is None or image.format == "TIFF":
        return 1
    directory = int.from_bytes(exif[4:8], order)
    count = int.from_bytes(exif[directory : directory + 2], order)
    for start in range(directory + 2, min(directory + 2 + 12 * count, len(exif) - 11), 12):
        tag, kind = (int.from_bytes(exif[start + place : start + place + 2], order) for place in (0, 2))
        if tag == ORIENTATION and kind in WHOLE_NUMBERS:
            value = int.from_bytes(exif[start + 8 : start + 8 + WHOLE_NUMBERS[kind]], order)
            return value if 1 <= value <= 8 else 1
    return 1


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
