"""Stores of an index: what they have in common, and rows in memory."""

from __future__ import annotations

import pathlib
from collections.abc import Mapping
from typing import Any, Protocol

import numpy as np

from common.errors import check_given
from photo_search.index.approximate import ApproximateSearch
from photo_search.index.rows import Rows, exchanged


class Store(Protocol):
    """Rows and record of one index, as they were when it was opened.

    Each change is made whole or not at all. Settings of the record, such as `rounding_error`, change with rows.
    """

    has_own_graph: bool = False  # in place of an approximate index of faiss
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

    def keep_approximate(self, found: ApproximateSearch) -> None:
        """Store an approximate index, and record it."""

    def approximate(self) -> ApproximateSearch:
        """Return the recorded approximate index."""

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

    def own_graph(self, kind: str) -> Any:  # noqa: ANN401
        """Build the store's own approximate index; None: faiss should."""
        return None


class IndexMemory(Store):
    """Rows in the memory of this process.

    Args:
        settings: of the record.
        rows: the first ones.
    """

    def __init__(self, settings: dict, rows: Rows) -> None:
        self.record, self._rows = {**settings, "approximate": None}, rows
        self._approximate: ApproximateSearch | None = None

    def rows(self) -> Rows:
        """Return all rows."""
        return self._rows

    def append(self, rows: Rows, **changes: object) -> None:
        """Append rows; the approximate index stays, without them."""
        self.exchange(np.empty(0, np.int64), rows, **changes, approximate=self.record["approximate"])

    def exchange(self, removed: np.ndarray, rows: Rows, **changes: object) -> None:
        """Remove rows by their number, and append others."""
        self.rewrite(removed, exchanged(self._rows, removed, rows), **changes)

    def rewrite(self, sources: np.ndarray, rows: Rows, **changes: object) -> None:
        """Replace all rows."""
        self._rows = rows._replace(embeddings=rows.embeddings[:])
        self.record = {**self.record, "approximate": None, **changes}

    def replace_metadata(self, texts: Mapping[int, str]) -> None:
        """Replace the metadata of some rows, by their number."""
        known = self._rows.metadata or [""] * len(self._rows.ids)
        self._rows = self._rows._replace(metadata=[texts.get(row, text) for row, text in enumerate(known)])

    def keep_approximate(self, found: ApproximateSearch) -> None:
        """Keep an approximate index in memory."""
        self.record, self._approximate = {**self.record, "approximate": found.as_record()}, found

    def approximate(self) -> ApproximateSearch:
        """Return the approximate index that is kept."""
        return check_given("approximate", self._approximate)
