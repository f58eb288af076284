"""Photos of an index: looked up by embedding or row, shown by row number."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

import numpy as np

from common.data.regular_files import contents_of
from common.errors import invalid
from common.index import EmbeddingIndex, Neighbors
from experiments.photos.shown import shown_text
from experiments.photos.uploads import Refused, small_copy

PICTURE_SIDE, LARGE_SIDE = 320, 2048  # most pixels of a picture's longer side
_NUM_EXAMPLES = 12
_MOST_VALUES = 200  # of a column, for a list to choose from


class Gallery:
    """The page's view of an index; clients name photos by row, never by path.

    Photos with more than `max_pixels` are not shown.
    """

    def __init__(self, index: EmbeddingIndex, name: str, max_pixels: int) -> None:
        if not len(index):
            raise invalid("--index", received=name, expected="an index with photos")
        self.index, self.name, self._max_pixels = index, name, max_pixels
        common = os.path.commonprefix([min(index.ids), max(index.ids)])
        self._root = common.rfind(os.sep) + 1  # length of the paths' common folder, with its separator
        numbers: dict[str, int] = {}
        labels = index.labels or ()
        # Labels are compared as they are shown, which is how clients name them.
        self._classes = np.array([numbers.setdefault(shown_text(label), len(numbers)) for label in labels], np.int32)
        self._numbers = numbers
        metadata = index.metadata
        names = sorted({name for row in metadata for name in row})
        self._columns = {
            shown_text(name): np.array([shown_text(row.get(name, "")) for row in metadata], object) for name in names
        }

    def __len__(self) -> int:
        return len(self.index)

    def classes(self) -> list[dict[str, Any]]:
        """List the classes by name, with their numbers of labelled photos."""
        counts = np.bincount(self._classes, minlength=len(self._numbers))
        named = [(name, int(counts[number])) for name, number in self._numbers.items() if name]
        return [{"name": name, "photos": photos} for name, photos in sorted(named)]

    def columns(self) -> list[dict[str, Any]]:
        """List the columns of metadata with at most 200 values, and these values."""
        values_of = {name: sorted(set(values) - {""}) for name, values in self._columns.items()}
        return [{"name": name, "values": values} for name, values in values_of.items() if len(values) <= _MOST_VALUES]

    def examples(self) -> list[dict[str, Any]]:
        """Return some photos, evenly spaced over the index."""
        rows = np.unique(np.linspace(0, len(self) - 1, _NUM_EXAMPLES).astype(int))
        return [self.described(row) for row in rows.tolist()]

    def nearest(
        self, embedding: np.ndarray, count: int, label: str | None, where: Sequence[str] = ()
    ) -> list[dict[str, Any]]:
        """Return up to `count` photos nearest an embedding `[1, dim]`, nearest first.

        Only those of the class `label` and with all metadata of `where`, texts COLUMN=VALUE; others are refused.
        """
        return self._search(embedding, count, self._chosen(label, where))

    def like(
        self, row: int, count: int, label: str | None, where: Sequence[str] = (), part: np.ndarray | None = None
    ) -> list[dict[str, Any]]:
        """Return the nearest photos of an indexed photo or of its part."""
        self.check_row(row)
        among = self._chosen(label, where)
        if among is None and part is None:
            count = min(count, len(self) - 1)
            return self._found(self.index.neighbors_of([row], count)) if count else []
        among = np.arange(len(self)) if among is None else among
        query = np.asarray(self.index.embeddings[[row]], np.float32) if part is None else part
        return self._search(query, count, among[among != row])

    def described(self, row: int) -> dict[str, Any]:
        """Describe a photo; `picture` is None if its file is gone."""
        self.check_row(row)
        path = self.index.ids[row]
        label = "" if self.index.labels is None else shown_text(self.index.labels[row])
        picture = f"/api/photos/{row}/picture" if os.path.isfile(path) else None
        return {"row": row, "name": shown_text(path[self._root :]), "label": label, "picture": picture}

    def picture(self, row: int, side: int = PICTURE_SIDE) -> bytes:
        """Return a JPEG of a photo with at most `side` pixels a side."""
        contents = self.contents(row)
        copy = small_copy(contents, side, self._max_pixels)
        if isinstance(copy, str):
            raise Refused(404, copy)
        return copy

    def contents(self, row: int) -> bytes:
        """Return a photo's file; refuse if it is gone."""
        self.check_row(row)
        contents = contents_of(self.index.ids[row])
        if isinstance(contents, str):
            raise Refused(404, f"The file of this photo cannot be read: {contents}. It is searched all the same.")
        return contents

    def check_row(self, row: int) -> None:
        """Raise `Refused` unless the index has the row."""
        if not 0 <= row < len(self):
            raise Refused(404, f"Received row {row}; expected a number from 0 to {len(self) - 1}.")

    def _chosen(self, label: str | None, where: Sequence[str]) -> np.ndarray | None:
        """Return the rows of a class with some metadata, or None for all."""
        if label is None and not where:
            return None
        rows = np.arange(len(self))
        if label is not None:
            if not label or label not in self._numbers:
                raise Refused(422, "Received a class that the index does not have; expected one of /api/index.")
            rows = np.flatnonzero(self._classes == self._numbers[label])
        for text in where:
            name, _, value = text.partition("=")
            if name not in self._columns or value not in self._columns[name]:
                raise Refused(422, "Received metadata that no photo has; expected COLUMN=VALUE, as /api/index lists.")
            rows = rows[self._columns[name][rows] == value]
        return rows

    def _search(self, query: np.ndarray, count: int, among: np.ndarray | None) -> list[dict[str, Any]]:
        count = min(count, len(self) if among is None else len(among))
        return self._found(self.index.search(query, count, among=among)) if count else []

    def _found(self, found: Neighbors) -> list[dict[str, Any]]:
        rows, similarities = found.rows[0].tolist(), found.similarities[0].tolist()
        return [
            {"rank": rank, "similarity": round(similarity, 6), **self.described(row)}
            for rank, (row, similarity) in enumerate(zip(rows, similarities), 1)
        ]
