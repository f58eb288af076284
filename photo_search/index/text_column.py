"""Texts, one per row, in two append-only files: UTF-8 bytes and text ends."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from typing import overload

import numpy as np


class TextColumn(Sequence[str]):
    """A reader of single texts in memory-mapped files, decoded on demand.

    Args:
        content: uint8 `[bytes]`, all texts one after the other.
        ends: int64 `[rows]`, the end of each in `content`.
    """

    def __init__(self, content: np.ndarray, ends: np.ndarray) -> None:
        self._content, self._ends = content, ends

    def __len__(self) -> int:
        return len(self._ends)

    def __iter__(self) -> Iterator[str]:
        content, start = self._content.tobytes(), 0
        for end in self._ends.tolist():
            yield decoded(content[start:end])
            start = end

    @overload
    def __getitem__(self, row: int) -> str: ...
    @overload
    def __getitem__(self, row: slice) -> list[str]: ...
    def __getitem__(self, row: int | slice) -> str | list[str]:
        if isinstance(row, slice):
            return [self[each] for each in range(*row.indices(len(self)))]
        row = range(len(self))[row]  # counts from the end, too; refuses missing rows
        start = int(self._ends[row - 1]) if row else 0
        return decoded(self._content[start : int(self._ends[row])].tobytes())


def encoded(texts: Iterable[str], start: int = 0) -> tuple[bytes, np.ndarray]:
    """Return the bytes of texts, and their ends `[texts]`, int64.

    The first text begins at `start`. File names that are not UTF-8 (`os.fsdecode`) survive the round trip.
    """
    parts = [text.encode("utf-8", "surrogateescape") for text in texts]
    return b"".join(parts), start + np.cumsum([len(part) for part in parts], dtype=np.int64)


def decoded(content: bytes) -> str:
    """Return the text of encoded bytes."""
    return content.decode("utf-8", "surrogateescape")


def as_texts(values: Iterable[object]) -> list[str]:
    """Convert paths, labels or numbers to texts; NumPy integers become plain digits."""
    return [os.fspath(value) if isinstance(value, os.PathLike) else str(value) for value in values]
