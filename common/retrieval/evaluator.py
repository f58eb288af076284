"""Retrieval evaluation: exact P@1, R@k, P@R, MAP@R and mAP in bounded memory."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from common.errors import InvalidInput, invalid
from common.retrieval import metrics
from common.retrieval.labels import Relevance, relevance
from common.retrieval.query_sample import interval_of_all, sampled_rows
from common.retrieval.query_scores import QueryScores, RetrievalResult
from common.retrieval.search.blocked_search import slices
from common.retrieval.search.nearest_neighbors import NeighborSearch
from common.retrieval.search.rank_of_item import rank_items
from common.retrieval.search.relevant_ranking import rank_relevant_items

_SHALLOW = 16  # neighbours that every query looks at anyway; a deeper R@k is left to queries without a hit so far
_PAIRS_AT_ONCE = 2**20


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
    query_embeddings = np.asarray(query_embeddings)
    _check_recall_at(recall_at)
    relevant = relevance(query_embeddings, query_labels, gallery_embeddings, gallery_labels)
    num_relevant = _num_relevant(relevant, gallery_embeddings is None or exclude_same_row)
    candidates = np.flatnonzero(num_relevant)
    rows = candidates if sample_queries is None else sampled_rows(candidates, sample_queries, seed)
    search = NeighborSearch(
        query_embeddings,
        None if gallery_embeddings is None else np.asarray(gallery_embeddings),
        similarity=similarity,
        query_classes=relevant.query_order,
        gallery_classes=relevant.gallery_order,
        block_size=block_size,
        num_threads=num_threads,
        exclude_same_row=exclude_same_row,
    )
    table = _QueryTable(relevant, num_relevant, rows)
    tied = _fill(table, search, max(recall_at), find_ties=tie_bounds and not average_precision)
    scores = table.scores(recall_at)
    if average_precision or tie_bounds:
        scores = _with_ranks(scores, table, search, None if average_precision else tied, tie_bounds)
    result = scores.result(num_excluded_queries=len(query_embeddings) - len(candidates))
    return _with_intervals(result, scores, len(candidates))


def _with_intervals(result: RetrievalResult, scores: QueryScores, num_candidates: int) -> RetrievalResult:
    """Add intervals for all `num_candidates` queries, if a sample was evaluated."""
    if len(scores.rows) == num_candidates:
        return result
    values = {name: values for name, values in scores.by_name().items() if name != "mAP"}
    intervals = {name: interval_of_all(sample, num_candidates) for name, sample in values.items()}
    return replace(result, sampled_from=num_candidates, intervals=intervals)


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
        self.precision_at_1, self.r_precision, self.map_at_r = np.zeros((3, len(num_relevant)))
        self.first_hit = np.zeros(len(num_relevant), np.int64)

    def fill(self, rows: np.ndarray, neighbors: np.ndarray) -> None:
        """Store all metrics of the queries `rows` `[block]`.

        `neighbors` is `[block, most]` (-1: none).
        """
        hits = self.relevant.hits(rows, neighbors)
        self.precision_at_1[rows] = metrics.precision_at_1(hits)
        self.r_precision[rows] = metrics.r_precision(hits, self.num_relevant[rows])
        self.map_at_r[rows] = metrics.map_at_r(hits, self.num_relevant[rows])
        self.first_hit[rows] = metrics.first_hit_rank(hits)

    def scores(self, recall_at: Sequence[int]) -> QueryScores:
        """Return the scores of these queries."""
        return QueryScores(
            recall_at=tuple(dict.fromkeys(map(int, recall_at))),
            rows=self.rows,
            precision_at_1=self.precision_at_1[self.rows],
            r_precision=self.r_precision[self.rows],
            map_at_r=self.map_at_r[self.rows],
            first_hit=self.first_hit[self.rows],
        )


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


def _with_ranks(
    scores: QueryScores, table: _QueryTable, search: NeighborSearch, tied: np.ndarray | None, tie_bounds: bool
) -> QueryScores:
    """Add the tie bounds, and mAP if `tied` is None.

    `tied`: the query rows that have ties; None if unknown.
    """
    rows = scores.rows if tied is None else tied
    orders = (*(["by_index"] if tied is None else []), *(["worst", "best"] if tie_bounds else []))
    names = ["P@1", "P@R", "MAP@R", *(["mAP"] if tied is None else [])]
    values = {order: [np.zeros((len(names) + len(scores.recall_at), 0))] for order in orders}
    for ranks in rank_relevant_items(search, rows, table.relevant.items):
        for order in orders:
            values[order].append(ranks.values(names, scores.recall_at, order))
    found = {order: np.concatenate(blocks, axis=1) for order, blocks in values.items()}
    if tied is None:
        scores = replace(scores, average_precision=found["by_index"][names.index("mAP")])
    return replace(scores, tied_rows=rows, lowest=found["worst"], highest=found["best"]) if tie_bounds else scores


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
