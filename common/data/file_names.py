"""Compact file names: each folder once, and the names in it as bytes."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import overload

import numpy as np
import numpy.typing as npt

from common.errors import invalid

_BLOCK = 65_536  # names that are texts at the same time


class FileNames(Sequence[str]):
    """Compact paths of millions of files: 4 bytes plus the longest base name each.

    That is about a tenth of an array of text. A sequence of texts; an array of indices (or a mask, or a slice) selects
    a part. Paths stay as given, character by character; names that are not valid text are decoded by `os.fsdecode`.

    Args:
        paths: texts, bytes or `os.PathLike` objects.

    Raises:
        InvalidInput: something else is among them.

    Examples:
        >>> names = FileNames(["photos/ada/1.jpg", "photos/ada/2.jpg", "photos/eve/1.jpg"])
        >>> names[0], list(names[np.array([2, 1])])
        ('photos/ada/1.jpg', ['photos/eve/1.jpg', 'photos/ada/2.jpg'])
    """

    def __init__(self, paths: Iterable[str | bytes | os.PathLike] = ()) -> None:
        number_of: dict[str, int] = {}
        folder_of, names, blocks = [], [], []
        for path in paths:
            folder, separator, name = _text(path).rpartition(os.sep)
            folder_of.append(number_of.setdefault(folder + separator, len(number_of)))
            names.append(os.fsencode(name))
            if len(names) == _BLOCK:
                blocks.append((np.array(folder_of, np.int32), np.array(names)))
                folder_of, names = [], []
        blocks.append((np.array(folder_of, np.int32), np.array(names, None if names else "S1")))
        self._folders = tuple(number_of)
        self._folder_of = np.concatenate([folders for folders, _ in blocks])
        self._names = np.concatenate([names for _, names in blocks])

    @classmethod
    def of_folders(cls, folders: Sequence[str], folder_of: np.ndarray, names: np.ndarray) -> FileNames:
        """Make file names from folders and names within them.

        Args:
            folders: each with a separator at its end, or empty.
            folder_of: `[files]` int32 places in `folders`.
            names: `[files]` names below them, as bytes (`S`).
        """
        made = cls.__new__(cls)
        made._folders, made._folder_of, made._names = tuple(folders), folder_of, names
        return made

    @classmethod
    def joined(cls, parts: Sequence[FileNames]) -> FileNames:
        """Join the names of several parts, one part after the other."""
        number_of: dict[str, int] = {}
        numbers = []
        for part in parts:
            places = [number_of.setdefault(folder, len(number_of)) for folder in part._folders]
            numbers.append(np.array(places, np.int32)[part._folder_of])
        return cls.of_folders(
            tuple(number_of),
            np.concatenate(numbers) if parts else np.zeros(0, np.int32),
            np.concatenate([part._names for part in parts]) if parts else np.zeros(0, "S1"),
        )

    def __len__(self) -> int:
        return len(self._names)

    @overload
    def __getitem__(self, index: int) -> str: ...

    @overload
    def __getitem__(self, index: slice | Sequence[int] | np.ndarray) -> FileNames: ...

    def __getitem__(self, index: int | slice | Sequence[int] | np.ndarray) -> str | FileNames:
        """Return a path, or the paths at indices, a mask `[files]`, or a slice."""
        if isinstance(index, (int, np.integer)):
            return self._folders[self._folder_of[index]] + os.fsdecode(self._names[index])
        return FileNames.of_folders(self._folders, self._folder_of[index], self._names[index])

    def __iter__(self) -> Iterator[str]:
        for start in range(0, len(self), _BLOCK):
            part = slice(start, start + _BLOCK)
            for folder, name in zip(self._folder_of[part].tolist(), self._names[part].tolist()):
                yield self._folders[folder] + os.fsdecode(name)

    def __array__(self, dtype: npt.DTypeLike | None = None, copy: bool | None = None) -> np.ndarray:
        """Return an array of text, up to ten times as large."""
        if copy is False:
            raise ValueError("An array of text is always made anew: received copy=False, expected None or True.")
        return np.array(self.tolist(), dtype or np.str_)

    def __repr__(self) -> str:
        shown = ", ".join(repr(self[place]) for place in range(min(len(self), 3)))
        return f"FileNames([{shown}{', ...' if len(self) > 3 else ''}], {len(self)} files)"

    def tolist(self) -> list[str]:
        """Return all paths as texts."""
        return list(self)

    def as_bytes(self) -> np.ndarray:
        """Return `[files]` objects, each a path in bytes (strings to TensorFlow)."""
        # A batch has few of the folders, of which there may be a hundred thousand: only its own are looked at.
        folders = [self._folders[folder] for folder in self._folder_of.tolist()]
        found = np.empty(len(self), object)
        found[:] = [os.fsencode(folder) + name for folder, name in zip(folders, self._names.tolist())]
        return found

    def by_folder(self) -> Iterator[tuple[str, np.ndarray]]:
        """Yield folders in order of their first file, with positions `[files]` of their files."""
        order = np.argsort(self._folder_of, kind="stable")
        present, first, counts = np.unique(self._folder_of, return_index=True, return_counts=True)
        starts = np.cumsum(counts) - counts
        for place in np.argsort(first, kind="stable").tolist():
            yield self._folders[present[place]], order[starts[place] : starts[place] + counts[place]]

    def base_names(self, rows: np.ndarray) -> list[str]:
        """Return the names at some positions, without their folders."""
        return [os.fsdecode(name) for name in self._names[rows].tolist()]

    def folders(self) -> list[str]:
        """Return the folders of the files, each with a final separator, or empty."""
        return [self._folders[number] for number in np.unique(self._folder_of).tolist()]

    def with_folders(self, folders: Mapping[str, str]) -> FileNames:
        """Return the same names in other folders.

        Args:
            folders: the replacement of each of `folders()`.
        """
        renamed = [folders.get(folder, folder) for folder in self._folders]
        return FileNames.of_folders(renamed, self._folder_of, self._names)

    @property
    def nbytes(self) -> int:
        """Bytes that the names take, without the few folders."""
        return self._folder_of.nbytes + self._names.nbytes


def _text(path: str | bytes | os.PathLike) -> str:
    try:
        return os.fsdecode(path)
    except TypeError:
        raise invalid("paths", received=path, expected="names of files, each a text, bytes or os.PathLike") from None
