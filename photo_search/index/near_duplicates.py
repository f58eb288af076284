"""Near-duplicates: groups of rows above a similarity."""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components, minimum_spanning_tree

from common import retrieval
from common.errors import check_choice, invalid
from photo_search.index.similarity import ALMOST_ONE, METRICS, Metric, search_similarity, similarities_of

_FIRST_DEPTH = 8  # neighbours that each row looks at first; four times as many if all of them are near
_ROWS_AT_ONCE = 1024
_PAIRS_AT_ONCE = 2_000_000  # that are kept before they are reduced to those that hold groups together
_ROUNDING = 1e-12  # of a sum, in any order: a threshold that is the similarity of a pair is reached by it
_THRESHOLDS = {
    "cosine": (-1, 1, "a cosine, in [-1, 1]"),
    "inner_product": (-np.inf, np.inf, "a finite number"),
    "euclidean": (-np.inf, 0, "minus a distance, a finite number of at most 0"),
}


class DuplicatePairs(NamedTuple):
    """The pairs that hold groups of near-duplicates together, the most similar first.

    A group of n rows has n - 1 of them, the most similar ones (a maximum spanning tree). So each row of a group is in a
    pair with the row that is most similar to it. Equally similar pairs are in the order of their rows.

    Attributes:
        first: `[pairs]`, int64.
        second: `[pairs]`, int64, each larger than its `first`.
        similarities: `[pairs]`, float64.
    """

    first: np.ndarray
    second: np.ndarray
    similarities: np.ndarray

    def groups(self) -> list[list[int]]:
        """Return the rows that chains of pairs connect, the largest groups first.

        The ends of a chain may be less similar than the threshold.
        """
        rows, places = np.unique(np.r_[self.first, self.second], return_inverse=True)
        left, right = places[: len(self.first)], places[len(self.first) :]
        shape = (len(rows), len(rows))
        _, group = connected_components(coo_array((np.ones(len(left)), (left, right)), shape=shape), directed=False)
        members: dict[int, list[int]] = {}
        for row, number in zip(rows.tolist(), group.tolist()):
            members.setdefault(number, []).append(row)
        return sorted(members.values(), key=lambda found: (-len(found), found))

    def nearest(self) -> dict[int, tuple[float, int]]:
        """Map each row to its greatest similarity and its most similar row."""
        found: dict[int, tuple[float, int]] = {}
        for first, second, similarity in zip(self.first.tolist(), self.second.tolist(), self.similarities.tolist()):
            found.setdefault(first, (similarity, second))
            found.setdefault(second, (similarity, first))
        return found


def find_near_duplicates(
    embeddings: np.ndarray,
    threshold: float,
    *,
    metric: Metric = "cosine",
    nearest_rows: Callable[[np.ndarray, int], np.ndarray] | None = None,
) -> DuplicatePairs:
    """Find groups of rows, connected by pairs that reach `threshold`.

    Each row examines its 8 nearest. If all of them are that similar, it examines four times as many, until all are
    found. Of rows that are equal, the first looks for all. The cosine of rows that are equal up to rounding is 1.

    Args:
        embeddings: stored rows `[rows, dim]`, of unit norm for "cosine".
        threshold: in the unit of the metric: cosine in [-1, 1], inner product, or minus the distance for "euclidean",
            at most 0.
        metric: "cosine", "inner_product" or "euclidean".
        nearest_rows: returns the k nearest rows `[queries, k]` of rows `[queries]`, each without itself; exact search
            by default. Pairs that it misses in both directions are missed.

    Raises:
        InvalidInput: a threshold that no similarity can reach.
    """
    low, high, expected = _THRESHOLDS[check_choice("metric", metric, METRICS)]
    if not (low <= threshold <= high and np.isfinite(threshold)):
        raise invalid("threshold", received=threshold, expected=expected)
    first_row = _first_equal_rows(embeddings)
    collected = _Collected(embeddings, threshold, metric, first_row)
    pending, depth = np.unique(first_row), min(_FIRST_DEPTH, len(embeddings) - 1)
    if depth < 1:
        return collected.pairs()
    visit = _exact_visit(embeddings, metric) if nearest_rows is None else _visit_by(nearest_rows)
    while depth and len(pending):
        collected.depth = depth
        visit(pending, depth, collected.take)
        is_last = depth == len(embeddings) - 1
        pending = collected.unfinished_rows()
        depth = 0 if is_last else min(4 * depth, len(embeddings) - 1)
    return collected.pairs()


def _first_equal_rows(embeddings: np.ndarray) -> np.ndarray:
    """Return for each row `[rows]` the first row with the same bits."""
    first_of: dict[bytes, int] = {}
    digests = (hashlib.blake2b(row.tobytes(), digest_size=16).digest() for row in embeddings)
    return np.array([first_of.setdefault(digest, row) for row, digest in enumerate(digests)], np.int64)


class _Collected:
    """Pairs of examined rows, and the rows that have more; filled by threads."""

    def __init__(self, embeddings: np.ndarray, threshold: float, metric: str, first_row: np.ndarray) -> None:
        self.embeddings, self.metric, self.depth = embeddings, metric, 0
        self.threshold = threshold - _ROUNDING * max(1.0, abs(threshold))
        self._first_row = first_row
        copies = np.flatnonzero(first_row != np.arange(len(embeddings)))
        equal = similarities_of(embeddings[copies], embeddings, first_row[copies, np.newaxis], metric)[:, 0]
        is_near = np.asarray(equal >= self.threshold)  # not always, by inner product
        self._found: list[tuple[np.ndarray, ...]] = [(first_row[copies][is_near], copies[is_near], equal[is_near])]
        self._unfinished: list[np.ndarray] = []
        self._lock = threading.Lock()

    def take(self, rows: np.ndarray, neighbors: np.ndarray) -> None:
        """Add the neighbours `[block, depth]` of rows `[block]`."""
        neighbors = neighbors[:, : self.depth]
        similarities = similarities_of(self.embeddings[rows], self.embeddings, neighbors, self.metric)
        is_near = np.asarray(similarities >= self.threshold)
        # Neighbours come in the order of their products, by which rounding may rank equal rows behind others.
        reached = min(self.threshold, ALMOST_ONE) if self.metric == "cosine" else self.threshold
        goes_on = np.asarray((similarities[:, -1] >= reached) & (self.depth < len(self.embeddings) - 1))
        query, place = np.nonzero(is_near & ~goes_on[:, np.newaxis])
        first, second = rows[query], self._first_row[neighbors[query, place]]
        is_other = first != second
        with self._lock:
            self._found.append((first[is_other], second[is_other], similarities[query, place][is_other]))
            self._unfinished.append(rows[goes_on])
            if sum(len(part[0]) for part in self._found) > _PAIRS_AT_ONCE:
                self._found = [tuple(self.pairs())]

    def unfinished_rows(self) -> np.ndarray:
        """Return the rows that have more neighbours, and forget them."""
        rows = np.sort(np.concatenate([np.empty(0, np.int64), *self._unfinished]))
        self._unfinished = []
        return rows

    def pairs(self) -> DuplicatePairs:
        """Return the pairs that hold groups together."""
        empty = (np.empty(0, np.int64), np.empty(0, np.int64), np.empty(0))
        left, right, similarities = (np.concatenate(parts) for parts in zip(empty, *self._found))
        count = len(self.embeddings)
        keys, places = np.unique(np.minimum(left, right) * count + np.maximum(left, right), return_index=True)
        order = np.lexsort((keys, -similarities[places]))
        first, second = np.divmod(keys[order], count)
        rows, ends = np.unique(np.r_[first, second], return_inverse=True)
        # Ranks are lengths: no two are equal, so the tree does not depend on the order in which pairs come.
        ranks, ends = np.arange(1, len(first) + 1), ends.reshape(2, -1)
        tree = minimum_spanning_tree(coo_array((ranks, (ends[0], ends[1])), shape=(len(rows), len(rows))))
        kept = np.sort(tree.data.astype(np.int64)) - 1
        return DuplicatePairs(first[kept], second[kept], similarities[places][order][kept])


def _exact_visit(embeddings: np.ndarray, metric: str) -> Callable:
    search = retrieval.NeighborSearch(embeddings, similarity=search_similarity(metric))

    def visit(rows: np.ndarray, depth: int, take: Callable) -> None:
        limits = np.zeros(len(embeddings), np.int64)
        limits[rows] = depth
        search.visit(limits, take)

    return visit


def _visit_by(nearest_rows: Callable[[np.ndarray, int], np.ndarray]) -> Callable:
    def visit(rows: np.ndarray, depth: int, take: Callable) -> None:
        for start in range(0, len(rows), _ROWS_AT_ONCE):
            part = rows[start : start + _ROWS_AT_ONCE]
            take(part, nearest_rows(part, depth))

    return visit
