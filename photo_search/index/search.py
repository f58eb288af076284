"""Search among stored rows: exact, approximate, or re-ranked."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from common import retrieval
from photo_search.index.approximate import best_of
from photo_search.index.reranking import Reranking, k_reciprocal_distances
from photo_search.index.similarity import search_similarity, similarities_of

_FEW_QUERIES = 256  # with more, the project's exact search is faster
_ENTRIES_AT_ONCE = 2**22  # of the matrix of similarities of few queries
_FEWEST_ROWS_AT_ONCE = 4_096


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

    def unlike(self, threshold: float) -> np.ndarray:
        """Return which queries are unlike everything in the index `[queries]`, by a `CalibratedRejection.threshold`."""
        return self.similarities.max(axis=1, initial=-np.inf) < threshold


def nearest_exactly(queries: np.ndarray, embeddings: np.ndarray, k: int, metric: str) -> np.ndarray:
    """Return the nearest rows `[queries, k]`, int64, of `embeddings` `[rows, dim]`.

    Nearest first, equal ones by row. Few queries skip the preparations of `find_nearest_neighbors`; the result is the
    same.
    """
    if metric == "cosine" and len(queries) <= _FEW_QUERIES and k <= len(embeddings) // 32:
        return nearest_units(queries, embeddings, k)
    similarity, embeddings = search_similarity(metric), np.asanyarray(embeddings)
    return retrieval.find_nearest_neighbors(queries, embeddings, num_neighbors=k, similarity=similarity)


def nearest_approximately(
    queries: np.ndarray,
    embeddings: np.ndarray,
    k: int,
    metric: str,
    proposed: np.ndarray,
    exactly: Callable[[np.ndarray], np.ndarray],
) -> np.ndarray:
    """Sort rows `[queries, k]` that a graph proposed.

    A query with absent ones is searched `exactly`.
    """
    rows = best_of(queries, embeddings, proposed, k, metric)
    incomplete = np.flatnonzero((rows < 0).any(axis=1))
    if len(incomplete):
        rows[incomplete] = exactly(queries[incomplete])
    return rows


def reranked(queries: np.ndarray, embeddings: np.ndarray, rows: np.ndarray, reranking: Reranking) -> np.ndarray:
    """Sort each query's rows `[queries, candidates]` by their mutual k-reciprocal distances."""
    ordered = np.empty_like(rows)
    for place, (query, candidates) in enumerate(zip(queries, rows)):
        distances = k_reciprocal_distances(
            query[np.newaxis],
            embeddings[candidates],
            k1=reranking.k1,
            k2=reranking.k2,
            original_weight=reranking.original_weight,
        )
        ordered[place] = candidates[np.argsort(distances[0], kind="stable")]
    return ordered


def nearest_units(queries: np.ndarray, embeddings: np.ndarray, k: int) -> np.ndarray:
    """Return the rows of each query's largest inner products, as `find_nearest_neighbors` does.

    `find_nearest_neighbors` prepares the gallery (equal rows, bounds, an order of tiles), which pays for many queries,
    but takes seconds for the first one at a million rows. This function skips that: among 200,000 rows of 128
    components, one query takes 0.01 s of processor time here and 0.5 s there, 16 queries 0.07 s and 0.5 s.

    A float32 product proposes rows, a block at a time. Rows within twice its error of the k-th best so far are ranked
    in float64, equal ones by row.

    Args:
        queries: `[queries, dim]` of unit norm.
        embeddings: `[rows, dim]` of unit norm up to rounding, float32 or float16, perhaps memory-mapped.
        k: at most the number of rows.

    Returns:
        Rows `[queries, k]`, int64.
    """
    gamma = np.float32(product_error(queries.shape[1]))
    left = queries.astype(np.float32)
    step = max(_FEWEST_ROWS_AT_ONCE, k, _ENTRIES_AT_ONCE // max(1, len(queries)))
    threshold = np.full(len(queries), -np.inf, np.float32)
    rows = [np.empty(0, np.int64)] * len(queries)  # proposed so far, and their products
    values = [np.empty(0, np.float32)] * len(queries)
    for start in range(0, len(embeddings), step):
        products = left @ embeddings[start : start + step].astype(np.float32, copy=False).T
        for place, line in enumerate(products):
            if not start:
                threshold[place] = np.partition(line, len(line) - min(k, len(line)))[-min(k, len(line))] - 2 * gamma
            passed = np.flatnonzero(line >= threshold[place])
            if len(passed):
                rows[place] = np.concatenate([rows[place], passed + start])
                values[place] = np.concatenate([values[place], line[passed]])
                kept = max(0, len(values[place]) - k)
                threshold[place] = np.partition(values[place], kept)[kept] - 2 * gamma
    kept_rows = [row[value >= limit] for row, value, limit in zip(rows, values, threshold)]
    return np.stack([_best(query, embeddings, row, k) for query, row in zip(queries, kept_rows)])


def nearest_classes(
    queries: np.ndarray, embeddings: np.ndarray, classes: np.ndarray, k: int, metric: str
) -> tuple[np.ndarray, np.ndarray]:
    """Find the k classes that are most similar to several queries together.

    A class is as similar as the mean, over the queries, of its most similar row.

    Args:
        queries: `[queries, dim]`, of unit norm for "cosine".
        embeddings: stored rows `[rows, dim]`.
        classes: of the rows, integers 0..C-1 `[rows]`.
        k: at most C.
        metric: of the index.

    Returns:
        Rows `[k]`, the most similar one of each class, and similarities of the classes `[k]`, float64.
    """
    rows, similarities = _best_of_classes(queries, embeddings, classes, metric)
    means = similarities.mean(axis=0)
    chosen = np.argsort(-means, kind="stable")[:k]
    return rows[similarities[:, chosen].argmax(axis=0), chosen], means[chosen]


def nearest_classes_of_groups(
    groups: np.ndarray, embeddings: np.ndarray, classes: np.ndarray, metric: str
) -> tuple[np.ndarray, np.ndarray]:
    """Return similarities of groups of rows with their nearest classes.

    Args:
        groups: rows of one class each `[groups, photos]`, which leave another row of it.
        embeddings, classes, metric: see `nearest_classes`.

    Returns:
        Those with the nearest class `[groups]`, without the group itself, and with the nearest other class.
    """
    nearest, others = np.empty((2, len(groups)))
    step = max(1, _ENTRIES_AT_ONCE // ((classes.max() + 1) * groups.shape[1]))
    for start in range(0, len(groups), step):
        part = groups[start : start + step]
        _, found = _best_of_classes(embeddings[part.ravel()], embeddings, classes, metric)
        for place, (group, means) in enumerate(zip(part, found.reshape(*part.shape, -1).mean(axis=1)), start):
            own = classes[group[0]]
            rest = np.setdiff1d(np.flatnonzero(classes == own), group)
            means[own] = -np.inf
            others[place] = means.max()
            among = np.broadcast_to(rest, (len(group), len(rest)))
            means[own] = similarities_of(embeddings[group], embeddings, among, metric).max(axis=1).mean()
            nearest[place] = means.max()
    return nearest, others


def _best_of_classes(
    queries: np.ndarray, embeddings: np.ndarray, classes: np.ndarray, metric: str
) -> tuple[np.ndarray, np.ndarray]:
    """Return each query's most similar row of each class, and its similarity `[queries, C]`."""
    queries = queries.astype(np.float64)
    rows = np.full((len(queries), int(classes.max(initial=-1)) + 1), -1)
    scores = np.full(rows.shape, -np.inf)
    for start in range(0, len(embeddings), _FEWEST_ROWS_AT_ONCE):
        order = np.argsort(classes[start : start + _FEWEST_ROWS_AT_ONCE], kind="stable")
        block, part = embeddings[start + order].astype(np.float64), classes[start + order]
        firsts = np.flatnonzero(np.diff(part, prepend=-1))
        found = queries @ block.T
        if metric == "euclidean":  # the order of -||q - x||
            found -= (block**2).sum(axis=1) / 2
        best = np.maximum.reduceat(found, firsts, axis=1)
        is_best = found == np.repeat(best, np.diff(firsts, append=len(part)), axis=1)
        at = np.minimum.reduceat(np.where(is_best, start + order, len(embeddings)), firsts, axis=1)
        better = best > scores[:, part[firsts]]
        rows[:, part[firsts]] = np.where(better, at, rows[:, part[firsts]])
        scores[:, part[firsts]] = np.where(better, best, scores[:, part[firsts]])
    return rows, similarities_of(queries, embeddings, rows, metric)


def product_error(dim: int) -> float:
    """Bound the error of a float32 product of unit vectors.

    It is (1.01 dim + 20) u, with the unit roundoff u.
    """
    return 1.01 * (1.01 * dim + 20) * float(np.finfo(np.float32).eps) / 2


def _best(query: np.ndarray, embeddings: np.ndarray, rows: np.ndarray, k: int) -> np.ndarray:
    """Return the k best proposed rows, by float64 products, then by row."""
    products = np.add.reduce(embeddings[rows].astype(np.float64) * query.astype(np.float64), axis=1)
    return rows[np.lexsort((rows, -products))[:k]]
