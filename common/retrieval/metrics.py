"""Retrieval metrics of queries from the relevance of their neighbours.

`hits` `[queries, neighbors]` marks for each query, nearest first, the neighbours of the query's class. `num_relevant`
`[queries]` is R, the number of relevant items that the query could find (at least 1). If a metric needs the first R,
`hits` must reach that far or to the end of the gallery. All return one value for each query, `[queries]`.

Reference: thesis section 1.2; Musgrave et al., A Metric Learning Reality Check, 2020, section 3.2. (The thesis prints
P@R_i inside the sum of MAP@R; the usual definition, which it also computes, has P@k.)
"""

from __future__ import annotations

import numpy as np


def precision_at_1(hits: np.ndarray) -> np.ndarray:
    """Compute P@1: 1 if the nearest neighbour is relevant, else 0. `[queries]`."""
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


def _first_r(hits: np.ndarray, num_relevant: np.ndarray) -> np.ndarray:
    return hits & (np.arange(hits.shape[1]) < num_relevant[:, np.newaxis])
