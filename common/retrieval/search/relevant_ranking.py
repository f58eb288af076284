"""Ranks of all relevant items of a query, with their ties.

They are the basis of every metric and its range under ties.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple

import numpy as np

from common.retrieval.search.blocked_search import slices, upper_bounds
from common.retrieval.search.buffer_sizes import dense_rows
from common.retrieval.search.candidates import Slack, rank_in_run, runs
from common.retrieval.search.nearest_neighbors import NeighborSearch

_DENSE_ENTRIES = 2**21  # float64 similarities that one thread holds at most
_GALLERY_AT_ONCE = 4096


class RelevantRanks(NamedTuple):
    """Ranks of relevant items, an entry per query and relevant item."""

    query: np.ndarray  # [pairs] query row, in runs
    nearer: np.ndarray  # [pairs] items more similar to the query
    before: np.ndarray  # [pairs] equally similar items of a smaller gallery index
    tied: np.ndarray  # [pairs] equally similar items, the relevant item included

    def in_order(self, order: str) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Rank each query's relevant items for an order of ties.

        Args:
            order: "by_index" (by gallery index), "worst" (relevant items last) or "best" (relevant items first).

        Returns:
            Ranks from 1, increasing within a query `[pairs]`; each query's beginning `[queries]`; the query of each
            rank, from 0 `[pairs]`.
        """
        pairs = RelevantRanks(*(field[np.lexsort((self.before, self.nearer, self.query))] for field in self))
        return pairs.positions(order), *runs(pairs.query)

    def positions(self, order: str) -> np.ndarray:
        """Return the ranks `[pairs]`, from 1.

        Pairs must be sorted by query, `nearer` and `before`.
        """
        if order == "by_index":
            return self.nearer + self.before + 1
        starts, run = runs(np.cumsum(np.r_[True, (np.diff(self.query) != 0) | (np.diff(self.nearer) != 0)]))
        position = self.nearer + rank_in_run(starts, run) + 1
        if order == "best":
            return position
        num_relevant_tied = np.diff(np.r_[starts, len(run)])[run]
        return position + self.tied - num_relevant_tied


def rank_relevant_items(
    search: NeighborSearch, rows: np.ndarray, items_of: Callable[[int], np.ndarray]
) -> Iterator[RelevantRanks]:
    """Rank all relevant gallery items of each query.

    Yields a few queries at a time, in the order of `rows`. Every pair is compared in float64; `search.bounds.exact`
    decides pairs that the rounding leaves open.

    Args:
        search: holds queries, gallery and bounds.
        rows: query rows `[ranked]`, each with something to find.
        items_of: from a query row to its relevant gallery rows, increasing; perhaps itself among them.
    """
    ranker = _Ranker(search, items_of)
    step, num_threads = dense_rows(len(search.gallery.first), search.num_threads, _DENSE_ENTRIES)
    with ThreadPoolExecutor(num_threads) as pool:
        yield from pool.map(lambda part: ranker.rank(rows[part]), slices(len(rows), step))


class _Ranker:
    """Ranks the relevant items of one block of queries after another."""

    def __init__(self, search: NeighborSearch, items_of: Callable[[int], np.ndarray]) -> None:
        self.bounds, self.gallery, self.without_self = search.bounds, search.gallery, search.without_self
        self.items_of = items_of
        self.group_of_row = np.empty(len(self.gallery.members), np.int64)
        group_of_member = np.repeat(np.arange(len(self.gallery.first)), self.gallery.sizes)
        self.group_of_row[self.gallery.members] = group_of_member
        self.member_keys = group_of_member * len(self.gallery.members) + self.gallery.members  # increasing

    def rank(self, rows: np.ndarray) -> RelevantRanks:
        """Rank the relevant items of the query `rows` `[block]`."""
        factors = self.bounds.factors(self.bounds.queries, rows, np.float64)
        upper = np.empty((len(rows), len(self.gallery.first)))
        radius, margin = np.empty((2, upper.shape[1]))
        for block in slices(upper.shape[1], _GALLERY_AT_ONCE):
            gallery = self.bounds.factors(self.bounds.gallery, self.gallery.first[block], np.float64)
            upper[:, block] = upper_bounds(factors.as_rows, gallery.as_columns)
            radius[block], margin[block] = gallery.radius, gallery.margin
        slack = Slack(factors.radius, factors.margin, radius, margin)
        parts = [self._rank_query(row, upper[i], slack, i) for i, row in enumerate(rows)]
        return RelevantRanks(*(np.concatenate(field) for field in zip(*parts)))

    def _relevant(self, row: int) -> tuple[np.ndarray, np.ndarray]:
        """Return a query's relevant items and increasing exact similarities `[relevant]`."""
        items = self.items_of(row)
        if self.without_self:
            items = items[items != row]
        values = self.bounds.exact(np.full(len(items), row), items)
        order = np.argsort(values, kind="stable")
        return items[order], values[order]

    def _rank_query(self, row: int, upper: np.ndarray, slack: Slack, place: int) -> RelevantRanks:
        """Rank by a row of upper bounds `[distinct gallery rows]`.

        `place` is the query's in `slack`.
        """
        items, values = self._relevant(row)
        groups = self.group_of_row[items]
        # Bounds of the relevant items, made to increase as their values do.
        highest = np.maximum.accumulate(upper[groups])
        lowest = np.minimum.accumulate((upper[groups] - slack.of(place, groups))[::-1])[::-1]
        # Item j is nearer than the relevant items 0..first_j-1 and as near as first_j..last_j-1.
        others = np.flatnonzero(upper >= lowest[0])
        first = np.searchsorted(highest, upper[others] - slack.of(place, others), side="left")
        last = np.searchsorted(lowest, upper[others], side="right")
        undecided = np.flatnonzero(last > first)
        exact = self.bounds.exact(np.full(len(undecided), row), self.gallery.first[others[undecided]])
        last = first.copy()
        first[undecided] = np.searchsorted(values, exact, side="left")
        last[undecided] = np.searchsorted(values, exact, side="right")
        sizes = self.gallery.sizes[others]
        if self.without_self:
            sizes = sizes - (others == self.group_of_row[row])
        up_to_first, up_to_last = (
            np.cumsum(np.bincount(ends, sizes, len(items) + 1).astype(np.int64)) for ends in (first, last)
        )
        nearer = up_to_first[-1] - up_to_first[:-1]
        tied = (up_to_first - up_to_last)[:-1]
        before = self._before(row, items, others[undecided], first[undecided], last[undecided])
        return RelevantRanks(np.full(len(items), row), nearer, before, tied)

    def _before(
        self, row: int, items: np.ndarray, groups: np.ndarray, first: np.ndarray, last: np.ndarray
    ) -> np.ndarray:
        """Count the rows of tied `groups` that precede each of `items[first:last]`."""
        copies = last - first
        group = np.repeat(groups, copies)
        item = np.repeat(first - np.cumsum(copies) + copies, copies) + np.arange(copies.sum())
        key = group * len(self.gallery.members) + items[item]
        before = np.searchsorted(self.member_keys, key) - self.gallery.starts[group]
        if self.without_self:
            before -= (group == self.group_of_row[row]) & (row < items[item])
        return np.bincount(item, before, len(items)).astype(np.int64)
