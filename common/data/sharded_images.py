"""Images that are parts of larger files, read by their place."""

from __future__ import annotations

import os
import zlib
from collections.abc import Sequence
from typing import overload

import numpy as np

from common.errors import InvalidInput, invalid

ENTRY = np.dtype([("shard", "<i4"), ("offset", "<i8"), ("length", "<u4"), ("checksum", "<u4")])


class ShardedImages(Sequence[bytes]):
    """Contents of image files in shards, in 20 bytes of memory each.

    A sequence of contents, read on access. An array of indices (or a mask, or a slice) selects a part without reading.

    Args:
        shards: paths of the files.
        entries: `[images]` of `ENTRY`: place in `shards`, offset and length in bytes, CRC-32 of the contents.
    """

    def __init__(self, shards: Sequence[str], entries: np.ndarray) -> None:
        self._shards, self._entries = tuple(shards), entries

    def __len__(self) -> int:
        return len(self._entries)

    @overload
    def __getitem__(self, index: int) -> bytes: ...

    @overload
    def __getitem__(self, index: slice | Sequence[int] | np.ndarray) -> ShardedImages: ...

    def __getitem__(self, index: int | slice | Sequence[int] | np.ndarray) -> bytes | ShardedImages:
        """Return contents at a place, or images at indices, a mask `[images]` or slice."""
        if isinstance(index, (int, np.integer)):
            return self[[int(index)]].named_contents()[0, 1]
        return ShardedImages(self._shards, self._entries[index])

    def __repr__(self) -> str:
        return f"ShardedImages({len(self)} images in {len(self._shards)} shards)"

    def named_contents(self) -> np.ndarray:
        """Return `[images, 2]` names (for messages) and contents as bytes, for TensorFlow.

        Raises:
            InvalidInput: a shard is missing or damaged; it names it.
        """
        found = np.empty((len(self), 2), object)
        for shard in np.unique(self._entries["shard"]).tolist():
            rows = np.flatnonzero(self._entries["shard"] == shard).tolist()
            entries = self._entries[rows][["offset", "length", "checksum"]].tolist()
            for row, named in zip(rows, _read(self._shards[shard], entries)):
                found[row] = named
        return found

    @property
    def nbytes(self) -> int:
        """Bytes of memory of the places, without the shards' names."""
        return self._entries.nbytes


def _read(path: str, entries: list[tuple[int, int, int]]) -> list[tuple[bytes, bytes]]:
    """Read names and contents of one shard's images, by offset, length and checksum."""
    found = []
    try:
        with open(path, "rb", buffering=0) as file:
            for offset, length, checksum in entries:
                contents = os.pread(file.fileno(), length, offset)
                if zlib.crc32(contents) != checksum:
                    raise _damaged(path, offset)
                found.append((os.fsencode(f"{path} at byte {offset}"), contents))
    except OSError as error:
        raise invalid(
            "image file",
            received=path,
            expected=f"a shard that can be read ({error.strerror or error})",
            fix="Run the same command again: missing copies of images are made again.",
        ) from error
    return found


def _damaged(path: str, offset: int) -> InvalidInput:
    return invalid(
        "image file",
        received=f"{path} with damage at byte {offset}",
        expected="a shard as it was written",
        fix="Delete it and run the same command again: its copies of images are made again.",
    )
