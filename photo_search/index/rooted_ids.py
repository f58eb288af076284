"""Paths as ids, stored relative to a root folder."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from typing import overload

from photo_search.index.text_column import TextColumn


class RootedIds(Sequence[str]):
    """Stored ids, read as paths below a root; absolute ones stay as they are.

    Args:
        stored: ids in the index.
        root: absolute path of a folder.
    """

    def __init__(self, stored: TextColumn, root: str) -> None:
        self._stored, self._root = stored, root

    def __len__(self) -> int:
        return len(self._stored)

    def __iter__(self) -> Iterator[str]:
        return (os.path.join(self._root, text) for text in self._stored)

    @overload
    def __getitem__(self, row: int) -> str: ...
    @overload
    def __getitem__(self, row: slice) -> list[str]: ...
    def __getitem__(self, row: int | slice) -> str | list[str]:
        if isinstance(row, slice):
            return [os.path.join(self._root, text) for text in self._stored[row]]
        return os.path.join(self._root, self._stored[row])


def without_root(ids: Iterable[str], root: str) -> list[str]:
    """Return ids as stored: those below the root relative to it, others unchanged."""
    start = os.path.join(root, "")
    return [text[len(start) :] if text.startswith(start) else text for text in ids]
