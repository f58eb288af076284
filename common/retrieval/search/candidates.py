"""Candidates for a query's nearest gallery items: packed, ordered, decided exactly."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

_PENDING_PER_QUERY = 36  # candidates that a block of queries collects before it is cut down to the best
_VALUE_BITS = 32


class Candidates(NamedTuple):
    """Candidates of several queries, query by query, best first."""

    query: np.ndarray  # [candidates] position of the query in its block, increasing
    item: np.ndarray  # [candidates] position in the gallery
    upper: np.ndarray  # [candidates] upper bound of the similarity
    tied: np.ndarray  # [candidates] whether the exact similarity equals that of the candidate before

    def select(self, index: np.ndarray | slice) -> Candidates:
        """Return the candidates at `index` (positions or a mask)."""
        return Candidates(*(field[index] for field in self))


def pack(query: np.ndarray, item: np.ndarray, upper: np.ndarray, item_bits: int) -> np.ndarray:
    """Pack each candidate into one uint64, sorted by query and bound.

    In increasing order they go query by query and best `upper` (float32) first. From the highest bit: query, the bits
    of `upper` mapped to decreasing order, item in `item_bits` bits.
    """
    bits = upper.view(np.uint32)
    falling = np.where(bits >> np.uint32(31), bits, bits ^ np.uint32(0x7FFFFFFF)).astype(np.uint64)
    key = (query.astype(np.uint64) << np.uint64(_VALUE_BITS)) | falling
    return (key << np.uint64(item_bits)) | item.astype(np.uint64)


def unpack(keys: np.ndarray, item_bits: int) -> Candidates:
    """Unpack candidates from sorted `keys`."""
    item = (keys & np.uint64((1 << item_bits) - 1)).astype(np.int64)
    keys = keys >> np.uint64(item_bits)
    falling = (keys & np.uint64(0xFFFFFFFF)).astype(np.uint32)
    upper = np.where(falling >> np.uint32(31), falling, falling ^ np.uint32(0x7FFFFFFF)).view(np.float32)
    query = (keys >> np.uint64(_VALUE_BITS)).astype(np.int64)
    return Candidates(query, item, upper, np.zeros(len(keys), bool))


def runs(ids: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Find the runs of equal neighbours in `ids`.

    Returns each run's beginning `[runs]`, and the run of each entry `[entries]`.
    """
    is_start = np.ones(len(ids), bool)
    is_start[1:] = ids[1:] != ids[:-1]
    return np.flatnonzero(is_start), np.cumsum(is_start) - 1


def rank_in_run(starts: np.ndarray, run: np.ndarray) -> np.ndarray:
    """Return the position of each entry in its run, from 0."""
    return np.arange(len(run)) - starts[run]


class Slack(NamedTuple):
    """The most by which an upper bound may exceed the similarity.

    It is 2 (r_i r_j + h_i + h_j).
    """

    query_radius: np.ndarray  # [queries]
    query_margin: np.ndarray  # [queries]
    gallery_radius: np.ndarray  # [gallery]
    gallery_margin: np.ndarray  # [gallery]

    def of(self, query: np.ndarray | int, item: np.ndarray) -> np.ndarray:
        """Return the slack of the pairs (query, item); the two broadcast."""
        margin = self.query_margin[query] + self.gallery_margin[item]
        return 2 * (self.query_radius[query] * self.gallery_radius[item] + margin)

    def lower(self, query: np.ndarray, item: np.ndarray, upper: np.ndarray) -> np.ndarray:
        """Return lower bounds of similarities from upper ones."""
        return upper - self.of(query, item)

    def widest(self, items: slice) -> np.ndarray:
        """Return the largest slack of each query with any of `items`: `[queries]`."""
        margin = self.query_margin + self.gallery_margin[items].max()
        return 2 * (self.query_radius * self.gallery_radius[items].max() + margin)


class Decision(NamedTuple):
    """The rules that decide the best candidates of one block of queries."""

    limits: np.ndarray  # [queries] how many neighbours each query wants
    slack: Slack  # upper - slack <= similarity <= upper
    exact: Callable  # (query, item) -> [candidates] float64 similarity
    tie_order: np.ndarray  # [gallery] decides between equal similarities, smaller first

    def best(self, candidates: Candidates) -> tuple[Candidates, np.ndarray]:
        """Return each query's `limits` best candidates in exact order.

        Also returns their `upper - slack`. Bounds that overlap form chains; only the order inside a chain is computed
        in float64.
        """
        if not len(candidates.query):
            return candidates, np.zeros(0)
        candidates, lower = self.prune(candidates)
        chain, size = self._chains(candidates, lower)
        open_order = np.flatnonzero(size > 1)
        if len(open_order):
            candidates, lower = self._decide(candidates, lower, chain, open_order)
        kept = rank_in_run(*runs(candidates.query)) < self.limits[candidates.query]
        return candidates.select(kept), lower[kept]

    def prune(self, candidates: Candidates) -> tuple[Candidates, np.ndarray]:
        """Keep candidates that can still be among their queries' `limits` best.

        Also returns lower bounds of their similarities.
        """
        if not len(candidates.query):
            return candidates, np.zeros(0)
        starts, run = runs(candidates.query)
        lower = self.slack.lower(*candidates[:3])
        leading = rank_in_run(starts, run) < self.limits[candidates.query]
        worst_leading = np.minimum.reduceat(np.where(leading, lower, np.inf), starts)
        kept = leading | (candidates.upper >= worst_leading[run])
        return candidates.select(kept), lower[kept]

    def _chains(self, candidates: Candidates, lower: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the chain of each candidate, and the chain's length."""
        query, upper = candidates.query, candidates.upper
        if not len(query):
            return query, query
        starts, run = runs(query)
        width = np.maximum.reduceat(upper - lower, starts)[run]
        begins = np.ones(len(query), bool)
        begins[1:] = (query[1:] != query[:-1]) | (upper[:-1] - width[1:] > upper[1:])
        chain = np.cumsum(begins) - 1
        return chain, np.bincount(chain)[chain]

    def _decide(
        self, candidates: Candidates, lower: np.ndarray, chain: np.ndarray, index: np.ndarray
    ) -> tuple[Candidates, np.ndarray]:
        """Put the candidates at `index` into exact order within their chains."""
        open_ones, open_lower, chain = candidates.select(index), lower[index], chain[index]
        value = self.exact(open_ones.query, open_ones.item)
        order = np.lexsort((self.tie_order[open_ones.item], -value, chain))
        for field, decided in zip((*candidates[:3], lower), (*open_ones[:3], open_lower)):
            field[index] = decided[order]
        value = value[order]
        candidates.tied[index[1:]] = (value[1:] == value[:-1]) & (chain[1:] == chain[:-1])
        return candidates, lower


class CandidateBlock:
    """The candidates of one block of queries while the gallery streams by.

    Threads may share it.

    Args:
        decision: limits, bounds and exact values of this block.
        item_bits: bits for a gallery position; with 32 bits of value, the queries of a block fill the rest of 64.
        num_tiles: how many tiles of the similarity matrix this block will see.
    """

    def __init__(self, decision: Decision, item_bits: int, num_tiles: int) -> None:
        self.decision, self.item_bits = decision, item_bits
        self.threshold = np.where(decision.limits > 0, -np.inf, np.inf).astype(np.float32)  # [queries]
        self._keys: list[np.ndarray] = []
        self._num_keys = 0
        self._num_tiles = num_tiles
        self._capacity = max(_PENDING_PER_QUERY * len(decision.limits), 3 * int(decision.limits.sum()))
        self._lock = threading.Lock()

    def raise_threshold(self, lower: np.ndarray) -> None:
        """Raise thresholds to `lower` `[queries]`, reached by at least `limits` items."""
        rounded_down = np.nextafter(lower.astype(np.float32), np.float32(-np.inf))
        self.threshold = np.maximum(self.threshold, rounded_down)

    def add(self, query: np.ndarray, item: np.ndarray, upper: np.ndarray) -> bool:
        """Add a tile's unordered candidates; return whether it was the last tile."""
        keys = pack(query, item, upper, self.item_bits) if len(query) else None
        with self._lock:
            if keys is not None:
                self._keys.append(keys)
                self._num_keys += len(keys)
                if self._num_keys > self._capacity:
                    self._prune()
            self._num_tiles -= 1
            return self._num_tiles == 0

    def finish(self) -> Candidates:
        """Return each query's best candidates in exact order; drop all others."""
        with self._lock:
            return self.decision.best(self._sorted())[0]

    def _sorted(self) -> Candidates:
        keys = np.concatenate(self._keys) if self._keys else np.zeros(0, np.uint64)
        keys.sort()
        return unpack(keys, self.item_bits)

    def _prune(self) -> None:
        """Drop hopeless candidates; decide exactly only if too many remain.

        Too many remain if there are many ties.
        """
        kept, lower = self.decision.prune(self._sorted())
        if 3 * len(kept.query) > 2 * self._capacity:
            kept, lower = self.decision.best(kept)
        self._keys = [pack(kept.query, kept.item, kept.upper, self.item_bits)]
        self._num_keys = len(kept.query)
        if len(lower):
            starts, run = runs(kept.query)
            limits = self.decision.limits[kept.query[starts]]
            leading = rank_in_run(starts, run) < limits[run]
            reached = np.minimum.reduceat(np.where(leading, lower, np.inf), starts)
            full = np.diff(np.r_[starts, len(run)]) >= limits
            threshold = np.full(len(self.threshold), -np.inf)
            threshold[kept.query[starts[full]]] = reached[full]
            self.raise_threshold(threshold)
