"""Retrieval metrics of queries whose neighbours are known to be relevant or not.

`hits` `[queries, neighbors]` says for each query, nearest first, whether the neighbour is of the query's class;
`num_relevant` `[queries]` is R, the number of relevant items that the query could find (at least 1). Where a metric
looks R deep, `hits` must reach that far or to the end of the gallery. All return one value for each query, `[queries]`.

Reference: thesis section 1.2; Musgrave et al., A Metric Learning Reality Check, 2020, section 3.2. (The thesis prints
P@R_i inside the sum of MAP@R; the usual definition, which it also computes, has P@k.)
"""

from __future__ import annotations

import numpy as np


def precision_at_1(hits: np.ndarray) -> np.ndarray:
    """P@1: 1 where the nearest neighbour is relevant, else 0. `[queries]`."""
    return hits[:, 0].astype(np.float64)


def first_hit_rank(hits: np.ndarray) -> np.ndarray:
    """Rank of the nearest relevant neighbour from 1, or 0 where none is relevant. `[queries]`, int64."""
    return np.where(hits.any(axis=1), hits.argmax(axis=1) + 1, 0)


def recall_at_k(first_hit: np.ndarray, k: int) -> np.ndarray:
    """R@k: 1 where at least one of the k nearest neighbours is relevant, else 0. `[queries]`.

    Args:
        first_hit: ranks from `first_hit_rank` `[queries]`, 0 for "not among the first k".
        k: how many neighbours count, at least 1.
    """
    return ((first_hit > 0) & (first_hit <= k)).astype(np.float64)


def r_precision(hits: np.ndarray, num_relevant: np.ndarray) -> np.ndarray:
    """P@R: the fraction of relevant items among the R nearest neighbours. `[queries]`."""
    return _first_r(hits, num_relevant).sum(axis=1) / num_relevant


def map_at_r(hits: np.ndarray, num_relevant: np.ndarray) -> np.ndarray:
    """MAP@R = (1/R) sum_{k <= R} P@k rel(k), where P@k is the precision among the first k. `[queries]`.

    It is added up from the nearest neighbour on, so that more columns in `hits` than R change no bit of it.

    Examples:
        >>> map_at_r(np.array([[True, False, True]]), np.array([3]))  # (1/1 + 2/3) / 3
        array([0.55555556])
    """
    hits = _first_r(hits, num_relevant)
    precision = np.cumsum(hits, axis=1) / np.arange(1, hits.shape[1] + 1)
    return np.cumsum(np.where(hits, precision, 0.0), axis=1)[:, -1] / num_relevant


def _first_r(hits: np.ndarray, num_relevant: np.ndarray) -> np.ndarray:
    return hits & (np.arange(hits.shape[1]) < num_relevant[:, np.newaxis])
