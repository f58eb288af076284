"""Retrieval evaluation: P@1, R@k, P@R, MAP@R and mAP of embeddings, exact and in bounded memory."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from common.errors import InvalidInput, invalid
from common.retrieval import metrics
from common.retrieval.labels import integer_labels
from common.retrieval.query_sample import interval_of_all, sampled_rows
from common.retrieval.search.blocked_search import slices
from common.retrieval.search.nearest_neighbors import NeighborSearch
from common.retrieval.search.rank_of_item import rank_items
from common.retrieval.search.relevant_ranking import ORDERS, rank_relevant_items

_SHALLOW = 16  # neighbours that every query looks at anyway; a deeper R@k is left to queries without a hit so far
_PAIRS_AT_ONCE = 2**20
_NAMES = ("P@1", "P@R", "MAP@R", "mAP")


@dataclass(frozen=True)
class RetrievalResult:
    """Metrics over all queries that have something to find, and the metrics of each of them.

    Fractions in [0, 1]. The arrays follow `query_rows` `[evaluated queries]`, increasing.
    """

    precision_at_1: float
    recall_at: dict[int, float]
    r_precision: float
    map_at_r: float
    num_queries: int  # evaluated
    num_excluded_queries: int  # without any relevant item in the gallery
    query_rows: np.ndarray
    per_query_precision_at_1: np.ndarray
    per_query_r_precision: np.ndarray
    per_query_map_at_r: np.ndarray
    mean_average_precision: float | None = None  # if asked for
    tie_bounds: dict[str, tuple[float, float]] | None = None  # if asked for: lowest and highest value of each metric
    sampled_from: int | None = None  # queries that have something to find, if only a sample of them was evaluated
    intervals: dict[str, tuple[float, float]] | None = None  # of a sample: 95 %, for P@1, R@k, P@R and MAP@R of all

    def as_dict(self) -> dict[str, float]:
        """The figures by the names that tables use: "P@1", "R@2", ..., "P@R", "MAP@R" and, if there, "mAP"; counts."""
        recall = {f"R@{k}": value for k, value in self.recall_at.items()}
        figures = {"P@1": self.precision_at_1, **recall, "P@R": self.r_precision, "MAP@R": self.map_at_r}
        if self.mean_average_precision is not None:
            figures["mAP"] = self.mean_average_precision
        return {**figures, "num_queries": self.num_queries, "num_excluded_queries": self.num_excluded_queries}


def evaluate_retrieval(
    query_embeddings: np.ndarray,
    query_labels: np.ndarray,
    gallery_embeddings: np.ndarray | None = None,
    gallery_labels: np.ndarray | None = None,
    *,
    recall_at: Sequence[int] = (1, 2, 4, 8),
    similarity: str = "euclidean",
    average_precision: bool = False,
    tie_bounds: bool = False,
    block_size: int = 1536,
    num_threads: int | None = None,
    exclude_same_row: bool = False,
    sample_queries: int | None = None,
    seed: int = 0,
) -> RetrievalResult:
    """Evaluates each query against the gallery, or against all other queries (without itself, by index).

    The neighbours are exact: float32 products only propose, float64 decides. Equal similarities are ordered by gallery
    index, smaller first, whatever the block size and the number of threads; so embeddings that have collapsed to a
    point score like chance. Queries without a relevant item in the gallery are left out of all means, and counted.

    Reference: definitions in `common.retrieval.metrics`.

    Args:
        query_embeddings: `[queries, dim]`, float16, float32 or float64; used as they are (not normalised).
        query_labels: integers of any size `[queries]`.
        gallery_embeddings, gallery_labels: `[gallery, dim]` and `[gallery]`; None for self-retrieval.
        recall_at: the k of R@k.
        similarity: "euclidean" or "inner_product".
        average_precision: also mAP, the mean of `(1/R) Σ_{k relevant} P@k` over the whole ranking: a float64 pass more.
        tie_bounds: also between which values each metric lies under any order of equally similar items.
        block_size, num_threads: speed and memory, not results; None uses all cores of the process.
        exclude_same_row: the gallery holds other embeddings of the queries, row by row: no query finds its own row.
        sample_queries: only so many random queries, at least 100; the result then has intervals for all queries.
        seed: of the sample.

    Raises:
        InvalidInput: NaN or infinity (the first bad row is named), wrong labels or sample, or nothing to find.

    Examples:
        >>> evaluate_retrieval(np.float32([[0], [1], [5], [6]]), np.array([7, 7, 8, 8])).map_at_r
        1.0
    """
    query_embeddings = np.asarray(query_embeddings)
    _check_recall_at(recall_at)
    query_classes, gallery_classes = _classes(query_embeddings, query_labels, gallery_embeddings, gallery_labels)
    search = NeighborSearch(
        query_embeddings,
        None if gallery_embeddings is None else np.asarray(gallery_embeddings),
        similarity=similarity,
        query_classes=query_classes,
        gallery_classes=gallery_classes,
        block_size=block_size,
        num_threads=num_threads,
        exclude_same_row=exclude_same_row,
    )
    num_relevant = _num_relevant(query_classes, gallery_classes, search.without_self)
    table = _QueryTable(query_classes, gallery_classes, num_relevant, _query_rows(num_relevant, sample_queries, seed))
    return _filled(table, search, recall_at, average_precision, tie_bounds)


def _query_rows(num_relevant: np.ndarray, sample_queries: int | None, seed: int) -> np.ndarray:
    """The rows of the queries that have something to find, or of a sample of them `[evaluated]`."""
    candidates = np.flatnonzero(num_relevant > 0)
    return candidates if sample_queries is None else sampled_rows(candidates, sample_queries, seed)


def _filled(
    table: _QueryTable, search: NeighborSearch, recall_at: Sequence[int], average_precision: bool, tie_bounds: bool
) -> RetrievalResult:
    """Fills the table and sums it up."""
    tied = _fill(table, search, max(recall_at), find_ties=tie_bounds and not average_precision)
    result = table.result(recall_at)
    if not (average_precision or tie_bounds):
        return result
    return _with_ranks(result, table, search, None if average_precision else tied, tie_bounds)


def _fill(table: _QueryTable, search: NeighborSearch, depth: int, find_ties: bool) -> np.ndarray:
    """Fills the table; returns the query rows whose metrics a tie may touch, if these are to be found `[tied]`."""
    num_relevant = table.num_relevant
    shallow = np.where(num_relevant > 0, np.maximum(num_relevant, min(depth, _SHALLOW)), 0)
    has_ties = np.zeros(len(num_relevant), bool)

    def fill(rows: np.ndarray, neighbors: np.ndarray) -> None:
        table.fill(rows, neighbors)
        if find_ties:
            has_ties[rows] = _has_ties(search, rows, neighbors)

    search.visit(shallow + (find_ties & (num_relevant > 0)), fill)  # one more: the last may be tied with the next
    late = _look_deeper(search, table, shallow, depth)
    has_ties[late] = True  # not looked into
    return np.flatnonzero(has_ties)


class _QueryTable:
    """The metrics of each query among the rows `evaluated`, filled block by block; `num_relevant` is 0 for others."""

    def __init__(
        self, query_classes: np.ndarray, gallery_classes: np.ndarray, num_relevant: np.ndarray, evaluated: np.ndarray
    ) -> None:
        self.query_classes, self.gallery_classes, self.evaluated = query_classes, gallery_classes, evaluated
        self.num_candidates = int((num_relevant > 0).sum())
        self.num_relevant = np.zeros_like(num_relevant)
        self.num_relevant[evaluated] = num_relevant[evaluated]
        self.precision_at_1, self.r_precision, self.map_at_r = np.zeros((3, len(query_classes)))
        self.first_hit = np.zeros(len(query_classes), np.int64)

    def fill(self, rows: np.ndarray, neighbors: np.ndarray) -> None:
        """All metrics of the queries `rows` `[block]` from their neighbours `[block, most]` (-1: none)."""
        hits = self._hits(rows, neighbors)
        self.precision_at_1[rows] = metrics.precision_at_1(hits)
        self.r_precision[rows] = metrics.r_precision(hits, self.num_relevant[rows])
        self.map_at_r[rows] = metrics.map_at_r(hits, self.num_relevant[rows])
        self.first_hit[rows] = metrics.first_hit_rank(hits)

    def result(self, recall_at: Sequence[int]) -> RetrievalResult:
        """Means over the evaluated queries."""
        rows = self.evaluated
        per_query = [values[rows] for values in (self.precision_at_1, self.r_precision, self.map_at_r)]
        hits = {int(k): metrics.recall_at_k(self.first_hit[rows], k) for k in recall_at}
        is_sample = len(rows) < self.num_candidates
        return RetrievalResult(
            precision_at_1=float(per_query[0].mean()),
            recall_at={k: float(values.mean()) for k, values in hits.items()},
            r_precision=float(per_query[1].mean()),
            map_at_r=float(per_query[2].mean()),
            num_queries=len(rows),
            num_excluded_queries=len(self.num_relevant) - self.num_candidates,
            query_rows=rows,
            per_query_precision_at_1=per_query[0],
            per_query_r_precision=per_query[1],
            per_query_map_at_r=per_query[2],
            sampled_from=self.num_candidates if is_sample else None,
            intervals=self._intervals(per_query, hits) if is_sample else None,
        )

    def _intervals(self, per_query: list[np.ndarray], hits: dict[int, np.ndarray]) -> dict[str, tuple[float, float]]:
        """By metric, where the mean over all queries that have something to find lies."""
        recall = {f"R@{k}": values for k, values in hits.items()}
        values = {"P@1": per_query[0], **recall, "P@R": per_query[1], "MAP@R": per_query[2]}
        return {name: interval_of_all(sample, self.num_candidates) for name, sample in values.items()}

    def _hits(self, rows: np.ndarray, neighbors: np.ndarray) -> np.ndarray:
        return (self.gallery_classes[neighbors] == self.query_classes[rows, np.newaxis]) & (neighbors >= 0)


def _has_ties(search: NeighborSearch, rows: np.ndarray, neighbors: np.ndarray) -> np.ndarray:
    """Whether any two of a query's neighbours `[block, most]` (-1: none) are equally similar to it: `[block]`."""
    has_ties = np.zeros(len(rows), bool)
    for part in slices(len(rows), max(1, _PAIRS_AT_ONCE // neighbors.shape[1])):
        query, rank = np.nonzero(neighbors[part] >= 0)
        values = search.bounds.exact(rows[part][query], neighbors[part][query, rank])
        is_tied = (values[1:] == values[:-1]) & (query[1:] == query[:-1])
        has_ties[part.start + query[1:][is_tied]] = True
    return has_ties


def _with_ranks(
    result: RetrievalResult,
    table: _QueryTable,
    search: NeighborSearch,
    tied: np.ndarray | None,
    tie_bounds: bool,
) -> RetrievalResult:
    """Adds mAP if `tied` is None, and the bounds; `tied`: the query rows that have ties, None for not known."""
    rows = result.query_rows if tied is None else tied
    recall_at = list(result.recall_at)
    hits = [metrics.recall_at_k(table.first_hit[result.query_rows], k) for k in recall_at]
    per_query = [result.per_query_precision_at_1, result.per_query_r_precision, result.per_query_map_at_r]
    known = np.stack([*per_query, np.zeros(result.num_queries), *hits])
    values = {order: known.copy() for order in ORDERS}
    for ranks in rank_relevant_items(search, rows, table.query_classes, table.gallery_classes):
        columns = np.searchsorted(result.query_rows, np.unique(ranks.query))
        for order in ORDERS:
            values[order][:, columns] = ranks.values(_NAMES, recall_at, order)
    names = [*_NAMES, *(f"R@{k}" for k in recall_at)]
    means = {order: dict(zip(names, map(float, rows.mean(axis=1)))) for order, rows in values.items()}
    bounds = {name: (means["worst"][name], means["best"][name]) for name in names}
    if tied is not None:
        del bounds["mAP"]
    average = means["by_index"]["mAP"] if tied is None else None
    return replace(result, mean_average_precision=average, tie_bounds=bounds if tie_bounds else None)


def _look_deeper(search: NeighborSearch, table: _QueryTable, shallow: np.ndarray, depth: int) -> np.ndarray:
    """R@k beyond the first neighbours, for the queries without a hit so far: the rank of their best relevant item.

    Returns the rows of these queries `[late]`.
    """
    late = np.flatnonzero((shallow > 0) & (shallow < depth) & (table.first_hit == 0))
    if len(late):
        table.first_hit[late] = rank_items(search, late, _best_relevant(search, table, late))
    return late


def _best_relevant(search: NeighborSearch, table: _QueryTable, rows: np.ndarray) -> np.ndarray:
    """The most similar item of the same class for each of the query `rows`: gallery rows `[rows]`."""
    by_class = np.argsort(table.gallery_classes, kind="stable")
    class_starts = np.searchsorted(table.gallery_classes[by_class], np.arange(table.query_classes.max() + 1))
    sizes = table.num_relevant[rows] + search.without_self
    best = np.empty(len(rows), np.int64)
    number = np.cumsum(sizes) // _PAIRS_AT_ONCE
    for chunk in np.unique(number):
        part = np.flatnonzero(number == chunk)
        ends = np.cumsum(sizes[part])
        owner = np.repeat(np.arange(len(part)), sizes[part])
        offset = np.arange(ends[-1]) - (ends - sizes[part])[owner]
        items = by_class[class_starts[table.query_classes[rows[part]]][owner] + offset]
        values = search.bounds.exact(rows[part][owner], items)
        if search.without_self:
            values[items == rows[part][owner]] = -np.inf
        order = np.lexsort((items, -values, owner))
        best[part] = items[order[ends - sizes[part]]]
    return best


def combine_embeddings(embeddings: Sequence[np.ndarray]) -> np.ndarray:
    """The embedding of an ensemble: each model's embeddings to unit length, side by side, to unit length again.

    Four 128-D models make the 512-D embedding of the fair protocol. A zero vector stays zero.

    Reference: thesis sections 3.3.2.1 and 5.3.4.1, "Embedding vectors"; Musgrave et al. 2020, section 3.3.

    Args:
        embeddings: one array `[items, dim]` for each model, dims may differ.

    Returns:
        `[items, sum of dims]`, float32 (float64 if any input is).
    """
    if not len(embeddings) or len({len(block) for block in embeddings}) > 1:
        raise invalid(
            "embeddings",
            received=[np.shape(block) for block in embeddings],
            expected="one array [items, dim] for each model, all of the same items",
        )
    dtype = np.result_type(np.float32, *(block.dtype for block in embeddings))
    combined = np.concatenate([_unit_length(block).astype(dtype) for block in embeddings], axis=1)
    return _unit_length(combined).astype(dtype)


def _unit_length(embeddings: np.ndarray) -> np.ndarray:
    norms = np.linalg.norm(embeddings.astype(np.float64), axis=1, keepdims=True)
    return embeddings / np.where(norms > 0, norms, 1.0)


def _classes(
    query_embeddings: np.ndarray,
    query_labels: np.ndarray,
    gallery_embeddings: np.ndarray | None,
    gallery_labels: np.ndarray | None,
) -> tuple[np.ndarray, np.ndarray]:
    """Labels as codes 0..C-1: `[queries]`, `[gallery]`."""
    if (gallery_embeddings is None) != (gallery_labels is None):
        raise InvalidInput(
            "Invalid gallery: received embeddings or labels alone, expected both (or none: self-retrieval)."
        )
    query_labels = integer_labels("query labels", query_labels, len(query_embeddings))
    if gallery_embeddings is None or gallery_labels is None:
        codes = np.unique(query_labels, return_inverse=True)[1]
        return codes, codes
    gallery_labels = integer_labels("gallery labels", gallery_labels, len(gallery_embeddings))
    if query_labels.dtype != gallery_labels.dtype:  # NumPy would make floats of int64 and uint64
        query_labels, gallery_labels = query_labels.astype(object), gallery_labels.astype(object)
    codes = np.unique(np.concatenate([query_labels, gallery_labels]), return_inverse=True)[1]
    return codes[: len(query_labels)], codes[len(query_labels) :]


def _num_relevant(query_classes: np.ndarray, gallery_classes: np.ndarray, without_self: bool) -> np.ndarray:
    """How many gallery items each query could find `[queries]`."""
    class_sizes = np.bincount(gallery_classes, minlength=query_classes.max() + 1)
    num_relevant = class_sizes[query_classes] - without_self
    if not (num_relevant > 0).any():
        raise InvalidInput(
            "Invalid labels: received no query with a relevant item in the gallery, expected classes with at least "
            f"{2 if without_self else 1} gallery item(s)."
        )
    return num_relevant


def _check_recall_at(recall_at: Sequence[int]) -> None:
    if not len(recall_at) or min(recall_at) < 1:
        raise invalid("recall_at", received=tuple(recall_at), expected="one or more integers of at least 1")
