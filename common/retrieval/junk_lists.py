"""Retrieval with lists of positives and junk, as of revisited Oxford and Paris."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from common.errors import InvalidInput, check_choice, check_positive, invalid
from common.retrieval.search.blocked_search import slices
from common.retrieval.search.nearest_neighbors import find_nearest_neighbors

_RANKS_AT_ONCE = 2**23
RULES = ("trapezoid", "sum")


class JunkListResult(NamedTuple):
    """Means over the queries with a positive, and of each query.

    Attributes:
        mean_average_precision: mAP, or mAP@k.
        mean_precision_at: mP@k by k.
        average_precision: of each query `[queries]`; NaN without a positive.
        num_excluded_queries: queries without a positive.
    """

    mean_average_precision: float
    mean_precision_at: dict[int, float]
    average_precision: np.ndarray
    num_excluded_queries: int


def evaluate_with_junk(
    query_embeddings: np.ndarray,
    gallery_embeddings: np.ndarray,
    positives: Sequence[Sequence[int] | np.ndarray],
    junk: Sequence[Sequence[int] | np.ndarray],
    *,
    depth: int | None = None,
    rule: str = "trapezoid",
    precision_at: Sequence[int] = (1, 5, 10),
    similarity: str = "inner_product",
) -> JunkListResult:
    """Evaluate queries whose junk counts neither as found nor as wrong.

    Junk is removed from each ranking before ranks are counted. With R positives at the increasing ranks r_j, average
    precision is by one of two rules:

    - "trapezoid": `(1/R) Σ_j [(j-1)/(r_j - 1) + j/r_j] / 2`, the first quotient 1 for a rank of 1. It is that of the
      official protocol, the area under linear pieces of the precision-recall curve.
    - "sum": `(1/R) Σ_j j/r_j`, that of `evaluate_retrieval` and scikit-learn.

    With `depth=k` the sum ends at rank k and R is at most k: mAP@k, by the rule "sum" that of Google Landmarks. mP@k is
    the official one: k is at most the rank of the last positive.

    Reference: Radenović, Iscen, Tolias, Avrithis, Chum: Revisiting Oxford and Paris, CVPR 2018, and its public code;
    Weyand, Araujo, Cao, Sim: Google Landmarks Dataset v2, CVPR 2020, for mAP@k. Protocols "easy", "medium" and "hard"
    differ in the lists alone.

    Args:
        query_embeddings, gallery_embeddings: `[queries, dim]` and `[gallery, dim]`, used as they are.
        positives, junk: for each query rows of the gallery, from 0; no row in both.
        depth: k of mAP@k, at least 1; None: the whole ranking.
        rule: of average precision, one of `RULES`.
        precision_at: the k of mP@k.
        similarity: "inner_product" or "euclidean"; equal ones are ordered by gallery row.

    Raises:
        InvalidInput: embeddings that are not finite, wrong lists, or no query with a positive.

    Examples:
        >>> queries, gallery = np.float32([[1, 0]]), np.float32([[1, 0], [0.9, 0], [0.8, 0], [0, 1]])
        >>> evaluate_with_junk(queries, gallery, [[2]], [[0]]).mean_average_precision  # (0/1 + 1/2) / 2
        0.25
    """
    check_choice("rule", rule, RULES)
    for k in (*precision_at, *(() if depth is None else (depth,))):
        check_positive("k", k)
    queries, gallery = np.asarray(query_embeddings), np.asarray(gallery_embeddings)
    found, removed = _checked_lists(positives, junk, len(queries), len(gallery))
    evaluated = np.flatnonzero([len(rows) > 0 for rows in found])
    average, precision = np.full(len(queries), np.nan), np.zeros((len(queries), len(precision_at)))
    for part in slices(len(evaluated), max(1, _RANKS_AT_ONCE // len(gallery))):
        rows = evaluated[part]
        ranking = find_nearest_neighbors(queries[rows], gallery, num_neighbors=len(gallery), similarity=similarity)
        for query, order in zip(rows, ranking):
            ranks = _ranks(order, found[query], removed[query])
            average[query] = _average_precision(ranks, rule, depth)
            precision[query] = [_precision(ranks, k) for k in precision_at]
    means = precision[evaluated].mean(axis=0)
    return JunkListResult(
        mean_average_precision=float(average[evaluated].mean()),
        mean_precision_at={int(k): float(mean) for k, mean in zip(precision_at, means)},
        average_precision=average,
        num_excluded_queries=len(queries) - len(evaluated),
    )


def _checked_lists(
    positives: Sequence[Sequence[int] | np.ndarray],
    junk: Sequence[Sequence[int] | np.ndarray],
    num_queries: int,
    num_items: int,
) -> tuple[list[np.ndarray], list[np.ndarray]]:
    """Return the sorted rows of both kinds of lists; see `evaluate_with_junk`."""
    found = [_rows("positives", rows, num_items) for rows in positives]
    removed = [_rows("junk", rows, num_items) for rows in junk]
    if not num_queries == len(found) == len(removed):
        received = f"{len(found)} of positives and {len(removed)} of junk"
        raise invalid("lists", received=received, expected=f"one of each for {num_queries} queries")
    for query, lists in enumerate(zip(found, removed)):
        both = np.intersect1d(*lists)
        if len(both):
            raise invalid("lists", received=f"row {both[0]} as positive and junk of query {query}", expected="one")
    if not any(map(len, found)):
        raise InvalidInput("Invalid positives: received empty lists, expected a query with something to find.")
    return found, removed


def _rows(name: str, rows: Sequence[int] | np.ndarray, num_items: int) -> np.ndarray:
    rows = np.asarray(rows)
    if not rows.size:
        return np.zeros(0, np.int64)
    if rows.ndim != 1 or rows.dtype.kind not in "iu" or rows.min() < 0 or rows.max() >= num_items:
        raise invalid(name, received=rows.tolist(), expected=f"rows of the gallery, 0..{num_items - 1}")
    return np.unique(rows).astype(np.int64)


def _ranks(order: np.ndarray, positives: np.ndarray, junk: np.ndarray) -> np.ndarray:
    """Return the increasing ranks of the positives, from 1.

    Junk is taken out of the ranking `[gallery]` first.
    """
    kept = order[~np.isin(order, junk)]
    return np.flatnonzero(np.isin(kept, positives)) + 1


def _average_precision(ranks: np.ndarray, rule: str, depth: int | None) -> float:
    """Return the average precision of increasing ranks `[positives]`, from 1."""
    number = np.arange(1, len(ranks) + 1)
    values = number / ranks
    if rule == "trapezoid":
        before = np.where(ranks > 1, (number - 1) / np.maximum(ranks - 1, 1), 1.0)
        values = (before + values) / 2
    if depth is None:
        return float(values.mean())
    return float(values[ranks <= depth].sum() / min(len(ranks), depth))


def _precision(ranks: np.ndarray, k: int) -> float:
    k = min(k, int(ranks[-1]))
    return float((ranks <= k).sum() / k)
