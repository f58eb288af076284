"""Retrieval metrics of queries from the relevance of their neighbours.

`hits` `[queries, neighbors]` marks for each query, nearest first, the neighbours of the query's class. `num_relevant`
`[queries]` is R, the number of relevant items that the query could find (at least 1). If a metric needs the first R,
`hits` must reach that far or to the end of the gallery. All return one value for each query, `[queries]`.

Reference: thesis section 1.2; Musgrave et al., A Metric Learning Reality Check, 2020, section 3.2. (The thesis prints
P@R_i inside the sum of MAP@R; the usual definition, which it also computes, has P@k.)

`METRICS` names the metrics that evaluations keep of every query. `TABLE_METRICS` are the columns of tables.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np


def precision_at_1(hits: np.ndarray, num_relevant: np.ndarray | None = None) -> np.ndarray:
    """Compute P@1: 1 if the nearest neighbour is relevant, else 0. `[queries]`."""
    del num_relevant
    return hits[:, 0].astype(np.float64)


def first_hit_rank(hits: np.ndarray) -> np.ndarray:
    """Return the nearest relevant neighbour's rank from 1. `[queries]`, int64.

    0 if none is relevant.
    """
    return np.where(hits.any(axis=1), hits.argmax(axis=1) + 1, 0)


def recall_at_k(first_hit: np.ndarray, k: int) -> np.ndarray:
    """Compute R@k: 1 if any of the k nearest is relevant, else 0.

    The result is `[queries]`.

    Args:
        first_hit: ranks from `first_hit_rank` `[queries]`, 0 for "not among the first k".
        k: how many neighbours count, at least 1.
    """
    return ((first_hit > 0) & (first_hit <= k)).astype(np.float64)


def r_precision(hits: np.ndarray, num_relevant: np.ndarray) -> np.ndarray:
    """Compute P@R, the relevant fraction of the R nearest neighbours. `[queries]`."""
    return _first_r(hits, num_relevant).sum(axis=1) / num_relevant


def map_at_r(hits: np.ndarray, num_relevant: np.ndarray) -> np.ndarray:
    """Compute MAP@R = (1/R) sum_{k <= R} P@k rel(k). `[queries]`.

    P@k is the precision among the first k. The sum starts at the nearest neighbour, so columns of `hits` beyond R
    change no bit of it.

    Examples:
        >>> map_at_r(np.array([[True, False, True]]), np.array([3]))  # (1/1 + 2/3) / 3
        array([0.55555556])
    """
    hits = _first_r(hits, num_relevant)
    precision = np.cumsum(hits, axis=1) / np.arange(1, hits.shape[1] + 1)
    return np.cumsum(np.where(hits, precision, 0.0), axis=1)[:, -1] / num_relevant


def ndcg(shared: np.ndarray) -> np.ndarray:
    """Compute nDCG with gains `2^l - 1`: `[queries]`, 0 if nothing is relevant.

    `Σ_k (2^{l_k} - 1) / log2(1 + k)` over the ranks k, divided by its value in the best order.

    Reference: Järvelin and Kekäläinen, ACM TOIS 20, 2002; gains as in Burges et al., ICML 2005.

    Args:
        shared: relevance l of all gallery items, nearest first, integers of at least 0 `[queries, gallery]`.

    Examples:
        >>> ndcg(np.array([[1, 2]])).round(4)
        array([0.7967])
    """
    gains = 2.0**shared - 1.0
    discounts = np.log2(np.arange(2, shared.shape[1] + 2))
    best = (-np.sort(-gains, axis=1) / discounts).sum(axis=1)
    return np.divide((gains / discounts).sum(axis=1), best, out=np.zeros(len(shared)), where=best > 0)


def hierarchical_average_precision(shared: np.ndarray) -> np.ndarray:
    """Compute hierarchical average precision: `[queries]`, 0 if nothing is relevant.

    `(1 / Σ_k r_k) Σ_k (1/k) Σ_{j ≤ k} min(r_j, r_k)` over the ranks k. The relevance r of an item that shares l levels
    is l divided by the number of items that share just as many. With one level it is average precision. The best order
    is by r, which is by l unless a coarser level has far fewer items.

    Reference: Ramzi, Audebert, Thome, Rambour, Bitot: Hierarchical Average Precision Training for Pertinent Image
    Retrieval (HAPPIER), ECCV 2022.

    Args:
        shared: as for `ndcg`.

    Examples:
        >>> hierarchical_average_precision(np.array([[0, 1, 1]])).round(4)  # (1/2 + 2/3) / 2
        array([0.5833])
    """
    present = [level for level in np.unique(shared) if level > 0]
    relevance = np.zeros(shared.shape)
    for level in present:
        has_level = shared == level
        relevance += has_level * level / np.maximum(has_level.sum(axis=1, keepdims=True), 1)
    found = np.zeros(len(shared))
    for level in present:
        has_level = shared == level
        own = relevance.max(axis=1, where=has_level, initial=0.0)[:, np.newaxis]  # one value for each query
        ranks = np.cumsum(np.minimum(relevance, own), axis=1) / np.arange(1, shared.shape[1] + 1)
        found += np.where(has_level, ranks, 0.0).sum(axis=1)
    total = relevance.sum(axis=1)
    return np.divide(found, total, out=np.zeros(len(shared)), where=total > 0)


def _first_r(hits: np.ndarray, num_relevant: np.ndarray) -> np.ndarray:
    return hits & (np.arange(hits.shape[1]) < num_relevant[:, np.newaxis])


# By name, functions of `hits` and `num_relevant` that look at the first R neighbours alone.
METRICS: Mapping[str, Callable[[np.ndarray, np.ndarray], np.ndarray]] = {
    "P@1": precision_at_1,
    "P@R": r_precision,
    "MAP@R": map_at_r,
}
TABLE_METRICS = ("P@1", "MAP@R")  # columns of tables; rows keep their sums by class
