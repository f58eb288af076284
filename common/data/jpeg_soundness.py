"""Detection of JPEG files with missing data, which decoders silently replace by made-up pixels."""

from __future__ import annotations

import io

import numpy as np
from PIL import Image

from common.data.image_formats import END_OF_IMAGE, START_OF_SCAN, jpeg_parts

_SEQUENTIAL_FRAMES, _NO_FRAMES = b"\xc0\xc1", b"\xc4\xc8\xcc"  # baseline and extended; others from C0 to CF
_AROUND = 8  # bytes that a decoder may read beyond what it needs, and that some cameras leave behind the last code
_EIGHTH = 8  # the smallest scale of libjpeg: all codes are read, few pixels computed


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
    is_one, ends = _scans(contents)
    if not ends:
        return None
    try:
        return _complaint_of_scan(contents, *ends) if is_one else _complaint_of_scans(contents, ends)
    except Exception:  # noqa: BLE001 (what cannot be decoded at all is for the decoder to tell)
        return None


def _scans(contents: bytes) -> tuple[bool, list[int]]:
    """Return whether a file has one sequential scan, and where its scans end.

    There are none if its markers are disordered.
    """
    ends: list[int] = []
    is_sequential = is_behind_scan = False
    for place, _, marker in jpeg_parts(contents) if contents.startswith(b"\xff\xd8") else ():
        ends += [place] * is_behind_scan
        if marker == END_OF_IMAGE:
            return is_sequential and len(ends) == 1, ends
        if b"\xc0" <= marker <= b"\xcf" and marker not in _NO_FRAMES:
            is_sequential = marker in _SEQUENTIAL_FRAMES
        is_behind_scan = marker == START_OF_SCAN
    return False, []


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
    stream = _Halting(contents[:end] + bytes(_AROUND), needed - _AROUND)
    with Image.open(stream, formats=("JPEG",)) as image:
        image.draft(image.mode, (image.width // _EIGHTH, image.height // _EIGHTH))
        try:
            image.load()
        except OSError:
            return "the coded data end before the image does"
        return None if stream.tell() > stream.halt else "coded data are left over after the last pixel"


def _complaint_of_scans(contents: bytes, ends: list[int]) -> str | None:
    parts = [contents[start:end] for start, end in zip((0, *ends), (*ends, None))]
    first, second = (_decoded(filling.join(parts)) for filling in (bytes(64), b"\xaa" * 64))  # skipped unless needed
    return None if np.array_equal(first, second) else "the coded data of a scan end before the image does"


def _decoded(contents: bytes) -> np.ndarray:
    with Image.open(io.BytesIO(contents), formats=("JPEG",)) as image:
        return np.asarray(image)
