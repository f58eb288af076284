"""Embeddings equal bit for bit: duplicates are compared once; ties cost nothing."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from common.retrieval.search.similarity_bounds import row_blocks


class DistinctRows(NamedTuple):
    """The distinct rows of an array.

    Each comes with the rows that are equal to it, in increasing order.
    """

    first: np.ndarray  # [distinct] the first row of each value, increasing
    members: np.ndarray  # [rows] all rows, grouped by value
    starts: np.ndarray  # [distinct + 1] where each group begins in `members`

    @property
    def has_duplicates(self) -> bool:
        """True if any two rows are equal."""
        return len(self.first) < len(self.members)

    @property
    def sizes(self) -> np.ndarray:
        """The number of equal rows `[distinct]`."""
        return np.diff(self.starts)


def find_distinct_rows(embeddings: np.ndarray) -> DistinctRows:
    """Group the equal rows of `embeddings` `[rows, dim]`.

    All values are finite; 0.0 and -0.0 are equal.
    """
    num_rows, dim = embeddings.shape
    weights = np.random.default_rng(0).uniform(0.5, 1.5, dim)  # equal rows have equal hashes, to the last bit
    hashes = np.concatenate([(embeddings[part] * weights).sum(axis=1) for part in row_blocks(embeddings)])
    order = np.argsort(hashes, kind="stable")
    same_as_previous = np.zeros(num_rows, bool)
    same_as_previous[1:] = hashes[order[1:]] == hashes[order[:-1]]
    if not same_as_previous.any():
        rows = np.arange(num_rows)
        return DistinctRows(rows, rows, np.arange(num_rows + 1))
    suspicious = same_as_previous.copy()
    suspicious[:-1] |= same_as_previous[1:]
    group = _group_of_rows(embeddings, np.sort(order[suspicious]))
    members = np.argsort(group, kind="stable")
    starts = np.flatnonzero(np.r_[True, np.diff(group[members]) > 0, True])
    return DistinctRows(members[starts[:-1]], members, starts)


def _group_of_rows(embeddings: np.ndarray, suspicious: np.ndarray) -> np.ndarray:
    """Return for each row the first row equal to it.

    Only the `suspicious` rows are compared.
    """
    group = np.arange(len(embeddings))
    bytes_of_row = np.dtype((np.void, embeddings.dtype.itemsize * embeddings.shape[1]))
    rows = np.ascontiguousarray(embeddings[suspicious] + embeddings.dtype.type(0)).view(bytes_of_row).ravel()
    _, first, inverse = np.unique(rows, return_index=True, return_inverse=True)
    group[suspicious] = suspicious[first[inverse.ravel()]]
    return group
