"""Exact nearest neighbours in bounded memory, with one rule for ties."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np

from common.errors import InvalidInput, check_positive, invalid
from common.retrieval.search.blocked_search import SearchTask, TileSearch, available_threads, search_rows
from common.retrieval.search.candidates import Candidates, rank_in_run, runs
from common.retrieval.search.distinct_rows import DistinctRows, find_distinct_rows
from common.retrieval.search.similarity_bounds import SimilarityBounds

_PENDING_BYTES = 512 * 2**20  # candidates that wait for a decision: a million queries in one symmetric pass
_BYTES_PER_WANTED = 24  # three candidates of eight bytes wait for each that is wanted
_ENTRIES_AT_ONCE = 2**21  # neighbours expanded at a time
_ROW_SEARCH_FRACTION = 1 / 32  # a query that wants more of the gallery is searched in full float64 rows


def find_nearest_neighbors(
    queries: np.ndarray,
    gallery: np.ndarray | None = None,
    *,
    num_neighbors: int,
    similarity: str = "euclidean",
    num_threads: int | None = None,
) -> np.ndarray:
    """Find each query's nearest gallery items, nearest first.

    Exact, in bounded memory. Besides the result it needs a float32 copy of the embeddings and a buffer of candidates:
    some hundred MB at most. Equal similarities (in float64) are ordered by gallery index, smaller first, for any blocks
    and threads.

    Args:
        queries: embeddings `[queries, dim]`, float16, float32 or float64.
        gallery: embeddings `[gallery, dim]`; None searches the queries themselves, each without itself (by index).
        num_neighbors: at most the number of items that a query can find.
        similarity: "euclidean" (small distances first) or "inner_product" (large products first).
        num_threads: None uses all cores that the process may use.

    Returns:
        Gallery indices `[queries, num_neighbors]`, int64.

    Raises:
        InvalidInput: embeddings that are not finite or do not fit together, or too many neighbours.

    Examples:
        >>> find_nearest_neighbors(np.float32([[0], [1], [3]]), num_neighbors=2)
        array([[1, 2], [0, 2], [1, 0]])
    """
    queries, gallery = np.asarray(queries), None if gallery is None else np.asarray(gallery)
    search = NeighborSearch(queries, gallery, similarity=similarity, num_threads=num_threads)
    check_positive("num_neighbors", num_neighbors)
    if num_neighbors > search.num_available:
        raise invalid("num_neighbors", received=num_neighbors, expected=f"at most {search.num_available}")
    neighbors = np.empty((len(queries), num_neighbors), np.int64)

    def keep(query_rows: np.ndarray, found: np.ndarray) -> None:
        neighbors[query_rows] = found

    search.visit(np.full(len(queries), num_neighbors), keep)
    return neighbors


class NeighborSearch:
    """Finds each query's own number of neighbours, delivered block by block.

    Args:
        queries, gallery, similarity, num_threads: see `find_nearest_neighbors`.
        query_classes, gallery_classes: integers `[queries]`, `[gallery]`; rows of equal numbers are probably near each
            other. They change the speed only.
        block_size: rows and columns of the tiles of the similarity matrix, at most: with many threads tiles are
            smaller, so that the memory does not grow with the cores. It changes the speed and the memory only.
        exclude_same_row: row i of the gallery is another embedding of query i; query i excludes it.
    """

    def __init__(
        self,
        queries: np.ndarray,
        gallery: np.ndarray | None = None,
        *,
        similarity: str = "euclidean",
        query_classes: np.ndarray | None = None,
        gallery_classes: np.ndarray | None = None,
        block_size: int = 1536,
        num_threads: int | None = None,
        exclude_same_row: bool = False,
    ) -> None:
        self.without_self = gallery is None or exclude_same_row
        self.block_size = check_positive("block_size", block_size)
        self.num_threads = check_positive("num_threads", num_threads or available_threads())
        if gallery is not None and gallery.shape[1:] != queries.shape[1:]:
            raise InvalidInput(
                f"Invalid embeddings: received queries {list(queries.shape)} and gallery {list(gallery.shape)}, "
                "expected [queries, dim] and [gallery, dim] with the same dim."
            )
        if exclude_same_row and gallery is not None and len(gallery) != len(queries):
            raise invalid("gallery", received=f"{len(gallery)} rows", expected=f"{len(queries)}, one for each query")
        self.bounds = SimilarityBounds(queries, queries if gallery is None else gallery, similarity)
        self.queries = find_distinct_rows(queries)
        self.query_order = _order(self.queries, query_classes)  # [distinct] place -> distinct row
        self.gallery, self.gallery_order = self.queries, self.query_order
        if gallery is not None:
            self.gallery = find_distinct_rows(gallery)
            self.gallery_order = _order(self.gallery, gallery_classes)
        self.num_available = len(self.gallery.members) - self.without_self

    def visit(self, num_neighbors: np.ndarray, consume: Callable) -> None:
        """Call `consume(query rows [block], neighbours [block, most])` once per block of queries.

        Rows of neighbours are filled up with -1. The calls come from several threads, for different queries.

        Args:
            num_neighbors: how many neighbours each query wants `[queries]`; queries with 0 are skipped.
            consume: receives the neighbours.
        """
        wanted = np.where(num_neighbors > 0, np.minimum(num_neighbors, self.num_available), 0)
        limits = np.where(wanted > 0, wanted + self.without_self, 0)
        limits = np.maximum.reduceat(limits[self.queries.members], self.queries.starts[:-1])[self.query_order]
        limits = np.minimum(limits, len(self.gallery.first))
        lists = NeighborLists(
            self.queries, self.gallery, self.query_order, self.gallery_order, wanted, self.without_self, consume
        )
        task = SearchTask(
            bounds=self.bounds,
            query_rows=self.queries.first[self.query_order],
            gallery_rows=self.gallery.first[self.gallery_order],
            limits=limits,
            deliver=lists.deliver,
        )
        by_rows = limits > _ROW_SEARCH_FRACTION * len(task.gallery_rows)
        if by_rows.any():
            search_rows(task._replace(limits=np.where(by_rows, limits, 0)), self.num_threads)
        if (limits[~by_rows] > 0).any():
            self._search_tiles(task._replace(limits=np.where(by_rows, 0, limits)))

    def _search_tiles(self, task: SearchTask) -> None:
        """Make one symmetric pass if its candidates fit into memory.

        Otherwise make several passes over some queries each.
        """
        options = {"block_size": self.block_size, "num_threads": self.num_threads}
        waiting = np.where(task.limits > 0, _BYTES_PER_WANTED * np.maximum(task.limits, 16), 0)
        active = np.flatnonzero(task.limits)
        if self.gallery is self.queries and waiting.sum() <= _PENDING_BYTES and 2 * len(active) > len(task.limits):
            TileSearch(task, symmetric=True, **options).run()
            return
        passes = (np.cumsum(waiting[active]) - 1) // _PENDING_BYTES
        for number in np.unique(passes):
            chosen = active[passes == number]
            part = task._replace(
                query_rows=task.query_rows[chosen],
                limits=task.limits[chosen],
                deliver=lambda places, candidates, chosen=chosen: task.deliver(chosen[places], candidates),
            )
            TileSearch(part, symmetric=False, **options).run()


def _order(distinct: DistinctRows, classes: np.ndarray | None) -> np.ndarray:
    if classes is None:
        return np.arange(len(distinct.first))
    return np.argsort(classes[distinct.first], kind="stable")


class NeighborLists(NamedTuple):
    """Turns ordered candidates among distinct rows into padded lists of neighbours.

    A search calls it. "Place" is a position in the order that the search uses, "row" is a row of the caller's arrays.
    """

    queries: DistinctRows
    gallery: DistinctRows
    query_order: np.ndarray  # [distinct queries] place -> distinct row
    gallery_order: np.ndarray  # [distinct gallery] place -> distinct row
    wanted: np.ndarray  # [query rows] number of neighbours
    without_self: bool  # queries and gallery are the same rows, and no row is its own neighbour
    consume: Callable  # (query rows [block], neighbours [block, most], filled up with -1)

    def deliver(self, places: np.ndarray, found: Candidates) -> None:
        """Deliver the neighbours of all rows equal to the queries at `places`."""
        if not len(found.query):
            return
        starts, _ = runs(found.query)
        lengths = np.diff(np.r_[starts, len(found.query)])
        distinct = self.query_order[places[found.query[starts]]]
        if not self.gallery.has_duplicates:
            items = self.gallery.first[self.gallery_order[found.item]]
            self._deliver_lists(distinct, items, starts, lengths)
            return
        most = np.maximum.reduceat(self.wanted[self.queries.members], self.queries.starts[:-1])[distinct] + 1
        copies = np.minimum(self.gallery.sizes[self.gallery_order[found.item]], np.repeat(most, lengths))
        for part in _spans(np.add.reduceat(copies, starts)):
            first, last = starts[part.start], starts[part.stop - 1] + lengths[part.stop - 1]
            items, lengths_with_copies = self._with_duplicates(found.select(slice(first, last)), copies[first:last])
            starts_with_copies = np.cumsum(lengths_with_copies) - lengths_with_copies
            self._deliver_lists(distinct[part], items, starts_with_copies, lengths_with_copies)

    def _with_duplicates(self, found: Candidates, copies: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Replace each candidate by its first `copies` equal rows.

        Equally similar rows are in increasing order.
        """
        begins = self.gallery.starts[self.gallery_order[found.item]]
        items = self.gallery.members[_segments(begins, copies)]
        similarity_class = np.repeat(np.cumsum(~found.tied), copies)
        starts, _ = runs(found.query)
        return items[np.lexsort((items, similarity_class))], np.add.reduceat(copies, starts)

    def _deliver_lists(self, distinct: np.ndarray, items: np.ndarray, starts: np.ndarray, lengths: np.ndarray) -> None:
        """Deliver `items[starts : starts + lengths]` to rows equal to `distinct`."""
        sizes = self.queries.sizes[distinct]
        rows = self.queries.members[_segments(self.queries.starts[distinct], sizes)]
        starts, lengths = np.repeat(starts, sizes), np.repeat(lengths, sizes)
        is_wanted = self.wanted[rows] > 0
        rows, starts, lengths = rows[is_wanted], starts[is_wanted], lengths[is_wanted]
        for part in _spans(lengths):
            self._pad(rows[part], items[_segments(starts[part], lengths[part])], lengths[part])

    def _pad(self, rows: np.ndarray, items: np.ndarray, lengths: np.ndarray) -> None:
        owner = np.repeat(np.arange(len(rows)), lengths)
        if self.without_self:
            is_other = items != rows[owner]
            owner, items = owner[is_other], items[is_other]
        rank = rank_in_run(*runs(owner))
        kept = rank < self.wanted[rows][owner]
        neighbors = np.full((len(rows), self.wanted[rows].max()), -1)
        neighbors[owner[kept], rank[kept]] = items[kept]
        self.consume(rows, neighbors)


def _segments(starts: np.ndarray, lengths: np.ndarray) -> np.ndarray:
    """Concatenate the segments start, start + 1, ..., start + length - 1."""
    ends = np.cumsum(lengths)
    return np.arange(ends[-1] if len(ends) else 0) + np.repeat(starts - ends + lengths, lengths)


def _spans(costs: np.ndarray) -> Iterator[slice]:
    """Yield slices of consecutive entries of limited total cost.

    Their costs add up to little more than `_ENTRIES_AT_ONCE`.
    """
    if not len(costs):
        return
    number = np.cumsum(costs) // _ENTRIES_AT_ONCE
    bounds = np.r_[0, np.flatnonzero(np.diff(number)) + 1, len(costs)]
    for start, stop in zip(bounds[:-1], bounds[1:]):
        yield slice(int(start), int(stop))
