"""Neighbours that a search has found."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np


class Neighbors(NamedTuple):
    """Neighbours of each query, nearest first.

    Attributes:
        rows: of the index `[queries, k]`, int64.
        similarities: `[queries, k]`, float64: cosine, inner product, or minus the Euclidean distance, by the metric of
            the index. Re-ranked rows do not follow their order.
        all_ids: the ids of all rows of the index.
        all_labels: the labels of all rows, or None.
    """

    rows: np.ndarray
    similarities: np.ndarray
    all_ids: Sequence[str]
    all_labels: Sequence[str] | None = None

    @property
    def ids(self) -> list[list[str]]:
        """The ids of the neighbours, a list for each query."""
        return [[self.all_ids[row] for row in line] for line in self.rows.tolist()]

    @property
    def labels(self) -> list[list[str]] | None:
        """The labels of the neighbours, a list for each query, or None."""
        if self.all_labels is None:
            return None
        return [[self.all_labels[row] for row in line] for line in self.rows.tolist()]
