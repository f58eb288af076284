"""Near-duplicates: all pairs of rows above a similarity, and their groups."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

from common import retrieval
from common.errors import check_choice, check_positive, invalid
from common.index.similarity import ALMOST_ONE, METRICS, search_similarity, similarities_of

_FIRST_DEPTH = 8  # neighbours that each row looks at first; four times as many if all of them are near
_ROWS_AT_ONCE = 1024
_ROUNDING = 1e-12  # of a sum, in any order: a threshold that is the similarity of a pair is reached by it
_THRESHOLDS = {
    "cosine": (-1, 1, "a cosine, in [-1, 1]"),
    "inner_product": (-np.inf, np.inf, "a finite number"),
    "euclidean": (-np.inf, 0, "minus a distance, a finite number of at most 0"),
}


class DuplicatePairs(NamedTuple):
    """Pairs of rows, the most similar first, equally similar ones by row.

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


def find_near_duplicates(
    embeddings: np.ndarray,
    threshold: float,
    *,
    metric: str = "cosine",
    max_pairs: int = 1_000_000,
    nearest_rows: Callable[[np.ndarray, int], np.ndarray] | None = None,
) -> DuplicatePairs:
    """Find all pairs of rows whose similarity is at least `threshold`.

    Each row examines its 8 nearest. If all of them are that similar, it examines four times as many, until all are
    found. The cosine of rows that are equal up to rounding is 1. The number of pairs bounds the memory.

    Args:
        embeddings: stored rows `[rows, dim]`, of unit norm for "cosine".
        threshold: in the unit of the metric: cosine in [-1, 1], inner product, or minus the distance for "euclidean",
            at most 0.
        metric: "cosine", "inner_product" or "euclidean".
        max_pairs: more pairs are an error.
        nearest_rows: returns the k nearest rows `[queries, k]` of rows `[queries]`, each without itself; exact search
            by default. Pairs that it misses in both directions are missed.

    Raises:
        InvalidInput: a threshold that no similarity can reach, or more pairs than `max_pairs`.
    """
    check_positive("max_pairs", max_pairs)
    low, high, expected = _THRESHOLDS[check_choice("metric", metric, METRICS)]
    if not (low <= threshold <= high and np.isfinite(threshold)):
        raise invalid("threshold", received=threshold, expected=expected)
    found: list[tuple[np.ndarray, np.ndarray, np.ndarray]] = []
    pending, depth = np.arange(len(embeddings)), min(_FIRST_DEPTH, len(embeddings) - 1)
    if depth < 1:
        return _as_pairs(found, len(embeddings), max_pairs)
    visit = _exact_visit(embeddings, metric) if nearest_rows is None else _visit_by(nearest_rows)
    while depth and len(pending):
        collected = _Collected(embeddings, threshold, metric, depth, sum(len(part[0]) for part in found), max_pairs)
        visit(pending, depth, collected.take)
        found += collected.complete
        is_last = depth == len(embeddings) - 1
        pending = np.sort(np.concatenate([np.empty(0, np.int64), *collected.unfinished]))
        depth = 0 if is_last else min(4 * depth, len(embeddings) - 1)
    return _as_pairs(found, len(embeddings), max_pairs)


class _Collected:
    """Neighbours of completed rows, and the incomplete rows; filled by threads."""

    def __init__(
        self, embeddings: np.ndarray, threshold: float, metric: str, depth: int, before: int, max_pairs: int
    ) -> None:
        self.embeddings, self.metric, self.depth = embeddings, metric, depth
        self.threshold = threshold - _ROUNDING * max(1.0, abs(threshold))
        self.max_pairs = max_pairs
        self.complete: list[tuple[np.ndarray, np.ndarray, np.ndarray]] = []
        self.unfinished: list[np.ndarray] = []
        self._count, self._lock = before, threading.Lock()

    def take(self, rows: np.ndarray, neighbors: np.ndarray) -> None:
        """Add the neighbours `[block, depth]` of rows `[block]`."""
        neighbors = neighbors[:, : self.depth]
        similarities = similarities_of(self.embeddings[rows], self.embeddings, neighbors, self.metric)
        is_near = np.asarray(similarities >= self.threshold)
        # Neighbours come in the order of their products, by which rounding may rank equal rows behind others.
        reached = min(self.threshold, ALMOST_ONE) if self.metric == "cosine" else self.threshold
        goes_on = np.asarray((similarities[:, -1] >= reached) & (self.depth < len(self.embeddings) - 1))
        kept = is_near & ~goes_on[:, np.newaxis]
        query, place = np.nonzero(kept)
        with self._lock:
            self._count += int(is_near.sum())
            if self._count > 2 * self.max_pairs:
                raise _too_many(self.max_pairs)
            self.complete.append((rows[query], neighbors[query, place], similarities[query, place]))
            self.unfinished.append(rows[goes_on])


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


def _as_pairs(found: list[tuple[np.ndarray, np.ndarray, np.ndarray]], num_rows: int, max_pairs: int) -> DuplicatePairs:
    """Return each pair once, whether found by one or both rows."""
    empty = (np.empty(0, np.int64), np.empty(0, np.int64), np.empty(0))
    left, right, similarities = (np.concatenate(parts) for parts in zip(empty, *found))
    keys, places = np.unique(np.minimum(left, right) * num_rows + np.maximum(left, right), return_index=True)
    if len(keys) > max_pairs:
        raise _too_many(max_pairs)
    order = np.lexsort((keys, -similarities[places]))
    first, second = np.divmod(keys[order], num_rows)
    return DuplicatePairs(first, second, similarities[places][order])


def _too_many(max_pairs: int) -> ValueError:
    return invalid(
        "threshold", received=f"one that more than {max_pairs} pairs reach", expected="a higher one", fix="Raise it."
    )
