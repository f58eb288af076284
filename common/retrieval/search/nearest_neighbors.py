"""Exact nearest neighbours in bounded memory, with one rule for ties."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from common.errors import InvalidInput, check_positive, invalid
from common.retrieval.search.blocked_search import SearchTask, TileSearch, available_threads, search_rows
from common.retrieval.search.distinct_rows import DistinctRows, find_distinct_rows
from common.retrieval.search.neighbor_lists import NeighborLists
from common.retrieval.search.similarity_bounds import SimilarityBounds

_PENDING_BYTES = 512 * 2**20  # candidates that wait for a decision: a million queries in one symmetric pass
_BYTES_PER_WANTED = 24  # three candidates of eight bytes wait for each that is wanted
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
