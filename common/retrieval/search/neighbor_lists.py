"""Neighbours of every row from a search's distinct rows.

Duplicates are added, the query itself is removed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np

from common.retrieval.search.candidates import Candidates, rank_in_run, runs
from common.retrieval.search.distinct_rows import DistinctRows

_ENTRIES_AT_ONCE = 2**21  # neighbours expanded at a time


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
