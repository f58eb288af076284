"""Stores of an index: what they have in common, and rows in memory."""

from __future__ import annotations

import pathlib
from collections.abc import Mapping
from typing import Protocol

import numpy as np

from common.errors import InvalidInput, invalid
from photo_search.index.approximate import ApproximateSearch
from photo_search.index.rows import Rows, exchanged


class Store(Protocol):
    """Rows and record of one index, as they were when it was opened.

    Each change is made whole or not at all. Settings of the record, such as `rounding_error`, change with rows.
    """

    record: dict
    root: str | None = None
    recorded_root: str | None = None

    def rows(self) -> Rows:
        """Return all rows; embeddings are read when used."""

    def append(self, rows: Rows, **changes: object) -> None:
        """Append rows of the stored type."""

    def exchange(self, removed: np.ndarray, rows: Rows, **changes: object) -> None:
        """Remove rows by their number, and append others."""

    def rewrite(self, sources: np.ndarray, rows: Rows, **changes: object) -> None:
        """Replace all rows; `sources` are the present rows whose embeddings they have, or -1."""

    def replace_metadata(self, texts: Mapping[int, str]) -> None:
        """Replace the metadata of some rows, by their number."""

    @property
    def approximate(self) -> dict | None:
        """The record of a graph for approximate search, which a database may have."""
        return None

    def check_whole(self) -> None:
        """Refuse rows that have been damaged since they were opened."""
        return

    def refresh(self) -> bool:
        """Take over what others have changed since; return whether there is anything."""
        return False

    def nearest(self, queries: np.ndarray, k: int, among: np.ndarray | None) -> np.ndarray | None:
        """Return the nearest rows `[queries, k]`, exactly.

        None: the embeddings themselves should be searched.
        """
        return None

    def model_file(self) -> pathlib.Path | None:
        """Return a file with the model that the index keeps, or None."""
        return None

    def build_graph(self) -> None:
        """Build a graph for approximate search, or raise `InvalidInput`."""
        raise _no_graph()

    def keep_graph(self, found: ApproximateSearch) -> None:
        """Record the recall and the effort of the graph."""
        raise _no_graph()

    def approximate_rows(self, queries: np.ndarray, count: int, effort: int) -> np.ndarray:
        """Return probably near rows `[queries, count]` by the graph, -1 for none."""
        raise _no_graph()


class IndexMemory(Store):
    """Rows in the memory of this process.

    Args:
        settings: of the record.
        rows: the first ones.
    """

    def __init__(self, settings: dict, rows: Rows) -> None:
        self.record, self._rows = settings, rows

    def rows(self) -> Rows:
        """Return all rows."""
        return self._rows

    def append(self, rows: Rows, **changes: object) -> None:
        """Append rows."""
        self.exchange(np.empty(0, np.int64), rows, **changes)

    def exchange(self, removed: np.ndarray, rows: Rows, **changes: object) -> None:
        """Remove rows by their number, and append others."""
        self.rewrite(removed, exchanged(self._rows, removed, rows), **changes)

    def rewrite(self, sources: np.ndarray, rows: Rows, **changes: object) -> None:
        """Replace all rows."""
        self._rows = rows._replace(embeddings=rows.embeddings[:])
        self.record = {**self.record, **changes}

    def replace_metadata(self, texts: Mapping[int, str]) -> None:
        """Replace the metadata of some rows, by their number."""
        known = self._rows.metadata or [""] * len(self._rows.ids)
        self._rows = self._rows._replace(metadata=[texts.get(row, text) for row, text in enumerate(known)])


def _no_graph() -> InvalidInput:
    fix = "Search exactly, or keep the index in a database: postgresql://USER@HOST/DATABASE#NAME."
    return invalid("approximate search", received="an index outside of a database", expected="one in it", fix=fix)
