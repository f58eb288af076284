"""The rank of one known gallery item for each query, by counting.

No list of neighbours is kept.
"""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import tensorflow as tf

from common.retrieval.search.blocked_search import slices, upper_bounds
from common.retrieval.search.buffer_sizes import tile_size
from common.retrieval.search.candidates import Slack
from common.retrieval.search.nearest_neighbors import NeighborSearch


def rank_items(search: NeighborSearch, rows: np.ndarray, items: np.ndarray) -> np.ndarray:
    """Return the rank, from 1, of gallery row `items[i]` for query `rows[i]`.

    The result is `[ranked]`, int64. The order is that of `NeighborSearch`: similarity, then gallery index; in
    self-retrieval without the query itself. Every pair is compared once in float32; float64 decides those too close to
    the item.

    Args:
        search: holds queries, gallery and bounds.
        rows: query rows `[ranked]`.
        items: gallery rows `[ranked]`, in self-retrieval other than `rows`.
    """
    counter = _NearerItems(search, rows, items)
    with ThreadPoolExecutor(search.num_threads) as pool:
        list(pool.map(counter.open_queries, range(len(counter.query_parts))))
        list(pool.map(counter.count, slices(len(search.gallery.first), counter.block_size)))
    return 1 + counter.num_nearer - counter.is_nearer_itself()


class _NearerItems:
    """Counts for each query the gallery items that precede its known item."""

    def __init__(self, search: NeighborSearch, rows: np.ndarray, items: np.ndarray) -> None:
        self.bounds, self.gallery, self.without_self = search.bounds, search.gallery, search.without_self
        self.rows, self.items = rows, items
        self.value = self.bounds.exact(rows, items)
        self.num_nearer = np.zeros(len(rows), np.int64)
        self.block_size = tile_size(search.block_size, search.num_threads)
        self.query_parts = slices(len(rows), self.block_size)
        self.columns: list = [None] * len(self.query_parts)
        self.query_width = np.empty((2, len(rows)))  # radius and margin
        self.bracket = np.empty((2, len(rows)))  # bounds of the known item's similarity
        group_of_member = np.repeat(np.arange(len(self.gallery.first)), self.gallery.sizes)
        self.member_keys = self._key(group_of_member, self.gallery.members)  # increasing
        self._lock = threading.Lock()

    def open_queries(self, column: int) -> None:
        """Prepare one block of queries."""
        part, bounds = self.query_parts[column], self.bounds
        queries = bounds.factors(bounds.queries, self.rows[part], np.float32)
        known = bounds.factors(bounds.gallery, self.items[part], np.float32)
        upper = np.einsum("ij,ij->i", known.as_rows.astype(np.float64), queries.as_columns.astype(np.float64))
        each = np.arange(len(upper))
        slack = Slack(queries.radius, queries.margin, known.radius, known.margin).of(each, each)
        self.query_width[:, part] = queries.radius, queries.margin
        self.bracket[:, part] = upper - slack, upper
        with tf.device("/CPU:0"):
            self.columns[column] = tf.constant(queries.as_columns)

    def count(self, block: slice) -> None:
        """Add one block of distinct gallery rows to every query's count."""
        factors = self.bounds.factors(self.bounds.gallery, self.gallery.first[block], np.float32)
        sizes = self.gallery.sizes[block]
        everything = slice(0, len(sizes))
        with tf.device("/CPU:0"):
            gallery = tf.constant(factors.as_rows)
        for part, columns in zip(self.query_parts, self.columns):
            tile = upper_bounds(gallery, columns)
            radius, margin = self.query_width[:, part]
            widest = Slack(radius, margin, factors.radius, factors.margin).widest(everything)
            lowest, highest = self.bracket[:, part]
            is_nearer = tile > _away(highest + widest, np.inf)
            num_nearer = sum(size * _column_sums(is_nearer[sizes == size]) for size in np.unique(sizes))
            open_ones = np.flatnonzero((tile >= _away(lowest, -np.inf)) ^ is_nearer)
            group, query = np.divmod(open_ones, tile.shape[1])
            decided = self._decide(block.start + group, part.start + query)
            np.add.at(num_nearer, query, decided)
            with self._lock:
                self.num_nearer[part] += num_nearer

    def is_nearer_itself(self) -> np.ndarray:
        """Return whether the query itself was counted: `[ranked]`.

        It should not count.
        """
        if not self.without_self:
            return np.zeros(len(self.rows), bool)
        value = self.bounds.exact(self.rows, self.rows)
        return (value > self.value) | ((value == self.value) & (self.rows < self.items))

    def _decide(self, group: np.ndarray, query: np.ndarray) -> np.ndarray:
        """Count the rows equal to `group` that precede each known item: `[pairs]`."""
        value = self.bounds.exact(self.rows[query], self.gallery.first[group])
        before = np.searchsorted(self.member_keys, self._key(group, self.items[query])) - self.gallery.starts[group]
        is_equal = value == self.value[query]
        return np.where(is_equal, before, np.where(value > self.value[query], self.gallery.sizes[group], 0))

    def _key(self, group: np.ndarray, row: np.ndarray) -> np.ndarray:
        return group * len(self.gallery.members) + row


def _column_sums(mask: np.ndarray) -> np.ndarray:
    """Count the true entries of each column: `[columns]`.

    Sums of 255 rows fit into bytes, which add up fastest.
    """
    strips = (mask[start : start + 255].view(np.uint8) for start in range(0, len(mask), 255))
    return sum(np.add.reduce(strip, axis=0, dtype=np.uint8).astype(np.int64) for strip in strips)


def _away(values: np.ndarray, direction: float) -> np.ndarray:
    """Return float32 numbers next to `values`, rounded towards `direction`."""
    return np.nextafter(values.astype(np.float32), np.float32(direction))
