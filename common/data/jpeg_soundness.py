"""Detection of JPEG files with missing data, which decoders silently replace by made-up pixels."""

from __future__ import annotations

import io
from typing import NamedTuple

import numpy as np
from PIL import Image

from common.data.image_formats import FILL, NEXT_MARKER

_START, _END, _START_OF_SCAN = b"\xff\xd8", 0xD9, 0xDA
_SEQUENTIAL_FRAMES = (0xC0, 0xC1)  # baseline and extended, with Huffman codes
_LOOK_AHEAD = 8  # bytes that a decoder may read beyond the last one that it needs
_MOST_LEFT_OVER = 8  # bytes; some cameras and editors leave a few
_FILLING = 64  # bytes that are put in after a scan
_EIGHTH = 8  # the smallest scale of libjpeg: all codes are read, few pixels computed


class _Layout(NamedTuple):
    """Where the coded data of a JPEG file end.

    Attributes:
        is_sequential: one scan, decoded as it is read.
        ends: of each scan, the place of the marker after it.
    """

    is_sequential: bool
    ends: tuple[int, ...]


def jpeg_complaint(contents: bytes) -> str | None:
    """Return the fault in a JPEG file's data before its end marker, or None.

    A decoder fills missing data with grey and ignores excess data. Here a file of one scan is decoded (at an eighth of
    its size) from its coded data and 8 more bytes, without the end marker. If that does not give all pixels, data are
    missing; if all pixels appear without the last 8 bytes, those do not belong to the image. Files of several scans
    (progressive) are decoded twice, with different bytes inserted after each scan: pixels that differ were made of
    them.

    Args:
        contents: of the file. Files that are not JPEG, or truncated, give None: the decoder reports them.
    """
    layout = _layout(contents)
    if layout is None:
        return None
    try:
        return _complaint_of_scan(contents, layout.ends[0]) if layout.is_sequential else _complaint(contents, layout)
    except Exception:  # noqa: BLE001 (what cannot be decoded at all is for the decoder to tell)
        return None


def _layout(contents: bytes) -> _Layout | None:
    """Return the scans of a file, or None if its markers are disordered."""
    if not contents.startswith(_START):
        return None
    place, frame = len(_START), None
    ends: list[int] = []
    while place + 4 <= len(contents):
        if contents[place] != 0xFF:
            return None
        marker = contents[place + 1]
        if marker == 0xFF:  # a fill byte
            place = FILL.match(contents, place).end() - 1  # type: ignore[union-attr]
            continue
        if marker == _END:
            return _Layout(frame in _SEQUENTIAL_FRAMES and len(ends) == 1, tuple(ends)) if ends else None
        if 0xC0 <= marker <= 0xCF and marker not in (0xC4, 0xC8, 0xCC):
            frame = marker
        place += 2 + int.from_bytes(contents[place + 2 : place + 4], "big")
        if marker == _START_OF_SCAN:
            found = NEXT_MARKER.search(contents, place)
            if found is None:
                return None
            place = found.start()
            ends.append(place)
    at_end = contents[place : place + 2] == bytes([0xFF, _END])
    return _Layout(frame in _SEQUENTIAL_FRAMES and len(ends) == 1, tuple(ends)) if ends and at_end else None


class _Halting(io.BytesIO):
    """A stream that first reads up to `halt`, and beyond only when asked again."""

    def __init__(self, contents: bytes, halt: int) -> None:
        super().__init__(contents)
        self.halt = halt

    def read(self, size: int | None = -1) -> bytes:
        """Read up to `size` bytes."""
        left = self.halt - self.tell()
        return super().read(min(size, left) if left > 0 and size is not None and size >= 0 else size)


def _complaint_of_scan(contents: bytes, end: int) -> str | None:
    needed = len(contents[:end].rstrip(b"\x00\xff"))  # padding is no damage
    stream = _Halting(contents[:end] + bytes(_LOOK_AHEAD), needed - _MOST_LEFT_OVER)
    with Image.open(stream, formats=("JPEG",)) as image:
        image.draft(image.mode, (image.width // _EIGHTH, image.height // _EIGHTH))
        try:
            image.load()
        except OSError:
            return "the coded data end before the image does"
        return None if stream.tell() > stream.halt else "coded data are left over after the last pixel"


def _complaint(contents: bytes, layout: _Layout) -> str | None:
    first, second = (_decoded(_filled(contents, layout.ends, filling)) for filling in (b"\x00", b"\xaa"))
    return None if np.array_equal(first, second) else "the coded data of a scan end before the image does"


def _filled(contents: bytes, ends: tuple[int, ...], filling: bytes) -> bytes:
    """Insert bytes after each scan, which a decoder skips unless it needs them."""
    parts = [contents[start:end] for start, end in zip((0, *ends), ends)]
    return (filling * _FILLING).join([*parts, contents[ends[-1] :]])


def _decoded(contents: bytes) -> np.ndarray:
    with Image.open(io.BytesIO(contents), formats=("JPEG",)) as image:
        return np.asarray(image)
