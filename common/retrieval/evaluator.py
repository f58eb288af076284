"""Retrieval evaluation: exact P@1, R@k, P@R, MAP@R and mAP in bounded memory."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike

from common.errors import InvalidInput, invalid
from common.retrieval import metrics
from common.retrieval.labels import Relevance, relevance
from common.retrieval.query_sample import interval_of_all, sampled_rows
from common.retrieval.search.blocked_search import slices
from common.retrieval.search.candidates import rank_in_run
from common.retrieval.search.nearest_neighbors import NeighborSearch
from common.retrieval.search.rank_of_item import rank_items
from common.retrieval.search.relevant_ranking import RelevantRanks, rank_relevant_items

_SHALLOW = 16  # neighbours that every query looks at anyway; a deeper R@k is left to queries without a hit so far
_PAIRS_AT_ONCE = 2**20


@dataclass(frozen=True)
class RetrievalResult:
    """Metrics over all queries with something to find, and of each query.

    Fractions in [0, 1], by their names in tables: "P@1", "R@2", ..., "P@R", "MAP@R" and, if computed, "mAP".

    Attributes:
        figures: means over the evaluated queries.
        per_query: the same of each `[evaluated queries]`, in the order of `query_rows`.
        query_rows: of the evaluated queries, increasing.
        num_queries: evaluated.
        num_excluded_queries: without any relevant item in the gallery.
        tie_bounds: if asked for, lowest and highest value of each metric.
        sampled_from: queries that have something to find, if only a sample of them was evaluated.
        intervals: of a sample: 95 %, for each metric of all but mAP.
    """

    figures: dict[str, float]
    per_query: dict[str, np.ndarray]
    query_rows: np.ndarray
    num_queries: int
    num_excluded_queries: int
    tie_bounds: dict[str, tuple[float, float]] | None = None
    sampled_from: int | None = None
    intervals: dict[str, tuple[float, float]] | None = None

    def as_dict(self) -> dict[str, float]:
        """Return figures and counts of queries by name."""
        return {
            **self.figures,
            "num_queries": self.num_queries,
            "num_excluded_queries": self.num_excluded_queries,
        }

    @property
    def precision_at_1(self) -> float:
        """The mean P@1."""
        return self.figures["P@1"]

    @property
    def recall_at(self) -> dict[int, float]:
        """The mean R@k by k."""
        return {int(name[2:]): value for name, value in self.figures.items() if name.startswith("R@")}

    @property
    def r_precision(self) -> float:
        """The mean P@R."""
        return self.figures["P@R"]

    @property
    def map_at_r(self) -> float:
        """The mean MAP@R."""
        return self.figures["MAP@R"]

    @property
    def mean_average_precision(self) -> float | None:
        """The mean mAP, if it was asked for."""
        return self.figures.get("mAP")

    @property
    def per_query_precision_at_1(self) -> np.ndarray:
        """P@1 of each evaluated query."""
        return self.per_query["P@1"]

    @property
    def per_query_r_precision(self) -> np.ndarray:
        """P@R of each evaluated query."""
        return self.per_query["P@R"]

    @property
    def per_query_map_at_r(self) -> np.ndarray:
        """MAP@R of each evaluated query."""
        return self.per_query["MAP@R"]


def evaluate_retrieval(
    query_embeddings: ArrayLike,
    query_labels: ArrayLike,
    gallery_embeddings: ArrayLike | None = None,
    gallery_labels: ArrayLike | None = None,
    *,
    recall_at: Sequence[int] = (1, 2, 4, 8),
    similarity: Literal["euclidean", "inner_product"] = "euclidean",
    average_precision: bool = False,
    tie_bounds: bool = False,
    block_size: int = 1536,
    num_threads: int | None = None,
    exclude_same_row: bool = False,
    sample_queries: int | None = None,
    seed: int = 0,
) -> RetrievalResult:
    """Evaluate each query against the gallery, or against all other queries.

    Without a gallery, each query excludes itself by index. The neighbours are exact: float32 products only propose,
    float64 decides. Equal similarities are ordered by gallery index, smaller first, for any block size and number of
    threads. Embeddings that have collapsed to a point therefore score like chance. Queries without a relevant item in
    the gallery do not count in any mean; their number is reported.

    Reference: definitions in `common.retrieval.metrics`.

    Args:
        query_embeddings: `[queries, dim]`, float16, float32 or float64; used as they are (not normalised).
        query_labels: integers of any size `[queries]`; or bools `[queries, classes]`, of several labels each. An item
            that shares one is relevant.
        gallery_embeddings, gallery_labels: `[gallery, dim]`, and labels likewise; None for self-retrieval.
        recall_at: the k of R@k.
        similarity: "euclidean" or "inner_product".
        average_precision: also mAP, the mean of `(1/R) Σ_{k relevant} P@k` over the whole ranking; a float64 pass more.
        tie_bounds: also the lowest and highest value of each metric under any order of equally similar items.
        block_size, num_threads: speed and memory, not results; None uses all cores of the process.
        exclude_same_row: the gallery holds other embeddings of the queries, row by row: no query finds its own row.
        sample_queries, seed: only this many random queries, at least 100; the result has intervals for all queries.

    Raises:
        InvalidInput: NaN or infinity (the first bad row is named), wrong labels or sample, or nothing to find.

    Examples:
        >>> evaluate_retrieval(np.float32([[0], [1], [5], [6]]), np.array([7, 7, 8, 8])).map_at_r
        1.0
    """
    queries, query_labels = np.asarray(query_embeddings), np.asarray(query_labels)
    gallery = None if gallery_embeddings is None else np.asarray(gallery_embeddings)
    _check_recall_at(recall_at)
    relevant = relevance(queries, query_labels, gallery, None if gallery_labels is None else np.asarray(gallery_labels))
    num_relevant = _num_relevant(relevant, gallery is None or exclude_same_row)
    candidates = np.flatnonzero(num_relevant)
    rows = candidates if sample_queries is None else sampled_rows(candidates, sample_queries, seed)
    search = NeighborSearch(
        queries,
        gallery,
        similarity=similarity,
        query_classes=relevant.query_order,
        gallery_classes=relevant.gallery_order,
        block_size=block_size,
        num_threads=num_threads,
        exclude_same_row=exclude_same_row,
    )
    table = _QueryTable(relevant, num_relevant, rows)
    tied = _fill(table, search, max(recall_at), find_ties=tie_bounds and not average_precision)
    values, bounds = table.scores(recall_at), None
    if average_precision or tie_bounds:
        ranked = rows if average_precision else tied
        orders = [*(["by_index"] if average_precision else []), *(["worst", "best"] if tie_bounds else [])]
        by_order = _scores_in_orders(table, search, ranked, recall_at, orders)
        if average_precision:
            values["mAP"] = by_order["by_index"]["mAP"]
        if tie_bounds:
            places = np.searchsorted(rows, ranked)
            bounds = {name: _bounds(name, of, places, by_order) for name, of in values.items()}
    is_sample = len(rows) < len(candidates)
    return RetrievalResult(
        figures={name: float(of.mean()) for name, of in values.items()},
        per_query=values,
        query_rows=rows,
        num_queries=len(rows),
        num_excluded_queries=len(queries) - len(candidates),
        tie_bounds=bounds,
        sampled_from=len(candidates) if is_sample else None,
        intervals={name: interval_of_all(of, len(candidates)) for name, of in values.items() if name != "mAP"}
        if is_sample
        else None,
    )


def _fill(table: _QueryTable, search: NeighborSearch, depth: int, find_ties: bool) -> np.ndarray:
    """Fill the table and return the query rows with possible ties `[tied]`.

    Ties are looked for only with `find_ties`.
    """
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
    """Metrics of the query `rows` `[scored]`, filled block by block.

    Each has something to find; `num_relevant` is 0 for all other rows.
    """

    def __init__(self, relevant: Relevance, num_relevant: np.ndarray, rows: np.ndarray) -> None:
        self.relevant, self.rows = relevant, rows
        self.num_relevant = np.zeros_like(num_relevant)
        self.num_relevant[self.rows] = num_relevant[self.rows]
        self.values = {name: np.zeros(len(num_relevant)) for name in metrics.METRICS}
        self.first_hit = np.zeros(len(num_relevant), np.int64)

    def fill(self, rows: np.ndarray, neighbors: np.ndarray) -> None:
        """Store all metrics of the queries `rows` `[block]`.

        `neighbors` is `[block, most]` (-1: none).
        """
        hits = self.relevant.hits(rows, neighbors)
        for name, metric in metrics.METRICS.items():
            self.values[name][rows] = metric(hits, self.num_relevant[rows])
        self.first_hit[rows] = metrics.first_hit_rank(hits)

    def scores(self, recall_at: Sequence[int]) -> dict[str, np.ndarray]:
        """Return each metric of `rows` `[scored]`, R@k behind the first."""
        first, *others = metrics.METRICS
        recall = {f"R@{int(k)}": metrics.recall_at_k(self.first_hit[self.rows], k) for k in recall_at}
        return {
            first: self.values[first][self.rows],
            **recall,
            **{name: self.values[name][self.rows] for name in others},
        }


def _has_ties(search: NeighborSearch, rows: np.ndarray, neighbors: np.ndarray) -> np.ndarray:
    """Return for each query whether neighbours are equally similar: `[block]`.

    `neighbors` is `[block, most]` (-1: none).
    """
    has_ties = np.zeros(len(rows), bool)
    for part in slices(len(rows), max(1, _PAIRS_AT_ONCE // neighbors.shape[1])):
        query, rank = np.nonzero(neighbors[part] >= 0)
        values = search.bounds.exact(rows[part][query], neighbors[part][query, rank])
        is_tied = (values[1:] == values[:-1]) & (query[1:] == query[:-1])
        has_ties[part.start + query[1:][is_tied]] = True
    return has_ties


def _scores_in_orders(
    table: _QueryTable, search: NeighborSearch, rows: np.ndarray, recall_at: Sequence[int], orders: Sequence[str]
) -> dict[str, dict[str, np.ndarray]]:
    """Return by order of ties, then name, the metrics of the query `rows` `[ranked]`."""
    blocks = [
        {order: _scores_of_ranks(ranks, recall_at, order) for order in orders}
        for ranks in rank_relevant_items(search, rows, table.relevant.items)
    ]
    names = [*metrics.METRICS, "mAP", *(f"R@{int(k)}" for k in recall_at)]
    return {
        order: {name: np.concatenate([np.zeros(0), *(of[order][name] for of in blocks)]) for name in names}
        for order in orders
    }


def _scores_of_ranks(ranks: RelevantRanks, recall_at: Sequence[int], order: str) -> dict[str, np.ndarray]:
    """Return the metrics of queries by name `[queries]`, with equal similarities in an order."""
    position, starts, run = ranks.in_order(order)
    num_relevant = np.diff(np.r_[starts, len(run)])
    values = {name: np.empty(len(starts)) for name in metrics.METRICS}
    for part in slices(len(starts), max(1, _PAIRS_AT_ONCE // int(num_relevant.max()))):
        of_part = slice(starts[part][0], starts[part][-1] + num_relevant[part][-1])
        query, place = run[of_part] - part.start, position[of_part] - 1
        is_within = place < num_relevant[part][query]
        hits = np.zeros((len(starts[part]), num_relevant[part].max()), bool)
        hits[query[is_within], place[is_within]] = True
        for name, metric in metrics.METRICS.items():
            values[name][part] = metric(hits, num_relevant[part])
    precision = (rank_in_run(starts, run) + 1) / position
    recall = {f"R@{int(k)}": metrics.recall_at_k(position[starts], k) for k in recall_at}
    return {**values, **recall, "mAP": np.add.reduceat(precision, starts) / num_relevant}


def _bounds(
    name: str, values: np.ndarray, places: np.ndarray, by_order: Mapping[str, Mapping[str, np.ndarray]]
) -> tuple[float, float]:
    """Average a metric under the worst and the best order of ties.

    Only the queries at `places` have ties.
    """
    ends = []
    for order in ("worst", "best"):
        in_order = values.copy()
        in_order[places] = by_order[order][name]
        ends.append(float(in_order.mean()))
    return ends[0], ends[1]


def _look_deeper(search: NeighborSearch, table: _QueryTable, shallow: np.ndarray, depth: int) -> np.ndarray:
    """Find R@k beyond the first neighbours, for queries without a hit.

    It follows from the rank of their best relevant item. Returns the rows of these queries `[late]`.
    """
    late = np.flatnonzero((shallow > 0) & (shallow < depth) & (table.first_hit == 0))
    if len(late):
        table.first_hit[late] = rank_items(search, late, _best_relevant(search, table, late))
    return late


def _best_relevant(search: NeighborSearch, table: _QueryTable, rows: np.ndarray) -> np.ndarray:
    """Find each query's most similar relevant item: gallery rows `[rows]`."""
    best = np.empty(len(rows), np.int64)
    number = np.cumsum(table.num_relevant[rows] + search.without_self) // _PAIRS_AT_ONCE
    for chunk in np.unique(number):
        part = np.flatnonzero(number == chunk)
        found = [table.relevant.items(row) for row in rows[part]]
        sizes = np.array([len(items) for items in found])
        items, owner = np.concatenate(found), np.repeat(np.arange(len(part)), sizes)
        values = search.bounds.exact(rows[part][owner], items)
        if search.without_self:
            values[items == rows[part][owner]] = -np.inf
        order = np.lexsort((items, -values, owner))
        best[part] = items[order[np.cumsum(sizes) - sizes]]
    return best


def combine_embeddings(embeddings: Sequence[np.ndarray]) -> np.ndarray:
    """Combine several models' embeddings into the embedding of an ensemble.

    Each model's embeddings are brought to unit length, joined side by side, and brought to unit length again. Four
    128-D models make the 512-D embedding of the fair protocol. A zero vector stays zero.

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


def _num_relevant(relevant: Relevance, without_self: bool) -> np.ndarray:
    """Count the gallery items that each query could find `[queries]`."""
    num_relevant = relevant.counts(without_self)
    if not (num_relevant > 0).any():
        raise InvalidInput(
            "Invalid labels: received no query with a relevant item in the gallery, expected classes with at least "
            f"{2 if without_self else 1} gallery item(s)."
        )
    return num_relevant


def _check_recall_at(recall_at: Sequence[int]) -> None:
    if not len(recall_at) or min(recall_at) < 1:
        raise invalid("recall_at", received=tuple(recall_at), expected="one or more integers of at least 1")
