"""Tiled passes over the similarity matrix; only a few tiles are in memory."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple

import numpy as np
import tensorflow as tf

from common.retrieval.search.buffer_sizes import dense_rows, tile_size
from common.retrieval.search.candidates import CandidateBlock, Candidates, Decision, Slack
from common.retrieval.search.similarity_bounds import SimilarityBounds, rows_of_columns

_BYTES_IN_CACHE = 2**20  # of a tile's rows that are compared while they are in the cache
_SPARSE = 1 / 64  # of a tile's entries: so many may be looked at one by one
_TILES_AT_ONCE = 16  # tiles that share one row block in one task
_TASKS_PER_THREAD = 2  # while one task waits for its product or for Python's lock, another has work for the core
_CUT_ENTRIES = 2**17  # neighbours that one block of queries wants, if there is a choice
_DENSE_ENTRIES = 2**22  # entries of float64 rows that one thread holds at most


class Thresholds(NamedTuple):
    """Thresholds of a tile's entries: of their columns, or of their rows."""

    of_columns: np.ndarray  # [columns]
    of_rows: np.ndarray | None  # [rows]; None: only columns look for neighbours


class SearchTask(NamedTuple):
    """A search; positions are places in `query_rows` and `gallery_rows`."""

    bounds: SimilarityBounds
    query_rows: np.ndarray  # [queries] rows of bounds.queries
    gallery_rows: np.ndarray  # [gallery] rows of bounds.gallery
    limits: np.ndarray  # [queries] number of neighbours wanted, 0 for none
    deliver: Callable  # (query positions [block], Candidates of the block); called from several threads

    def decision(self, part: slice, slack: Slack) -> Decision:
        """Return the decision rules for the queries at the positions `part`."""
        rows = self.query_rows[part]
        return Decision(
            limits=self.limits[part],
            slack=slack,
            exact=lambda query, item: self.bounds.exact(rows[query], self.gallery_rows[item]),
            tie_order=self.gallery_rows,
        )


def available_threads() -> int:
    """Return the number of cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def upper_bounds(row_factors: np.ndarray | tf.Tensor, column_factors: np.ndarray | tf.Tensor) -> np.ndarray:
    """Compute one tile `[rows, columns]` of upper bounds, on the CPU.

    A GPU may round to TF32 and break the bounds.
    """
    with tf.device("/CPU:0"):
        return np.asarray(tf.matmul(row_factors, column_factors, transpose_b=True))


def search_rows(task: SearchTask, num_threads: int) -> None:
    """Search a few rows of the matrix at a time, in float64.

    For many neighbours, up to the whole gallery.
    """
    bounds = task.bounds
    gallery_blocks = slices(len(task.gallery_rows), 4096)
    step, num_threads = dense_rows(len(task.gallery_rows), num_threads, _DENSE_ENTRIES)
    wanted = np.flatnonzero(task.limits > 0)

    def search(start: int) -> None:
        chosen = wanted[start : start + step]
        part = task._replace(query_rows=task.query_rows[chosen], limits=task.limits[chosen])
        factors = bounds.factors(bounds.queries, part.query_rows, np.float64)
        upper = np.empty((len(chosen), len(task.gallery_rows)))
        radius, margin = np.empty(upper.shape[1]), np.empty(upper.shape[1])
        for block in gallery_blocks:
            gallery = bounds.factors(bounds.gallery, task.gallery_rows[block], np.float64)
            upper[:, block] = upper_bounds(factors.as_rows, gallery.as_columns)
            radius[block], margin[block] = gallery.radius, gallery.margin
        decision = part.decision(slice(None), Slack(factors.radius, factors.margin, radius, margin))
        best, _ = decision.best(_leading_candidates(upper, decision))
        task.deliver(chosen, best)

    with ThreadPoolExecutor(num_threads) as pool:
        _for_each(pool, search, range(0, len(wanted), step))


def _for_each(pool: ThreadPoolExecutor, function: Callable, items: Sequence) -> None:
    """Call a function for each item, in the pool if there are several items.

    The pool starts threads when they are needed. One that meets TensorFlow costs more than a small search.
    """
    each = map if len(items) == 1 else pool.map
    list(each(function, items))


def _leading_candidates(upper: np.ndarray, decision: Decision) -> Candidates:
    """Return the candidates of full rows of bounds, best first."""
    found = []
    everything = np.arange(upper.shape[1])
    for place, (row, limit) in enumerate(zip(upper, decision.limits)):
        lower = row - decision.slack.of(place, everything)
        kth = np.partition(lower, len(row) - limit)[len(row) - limit]
        items = np.flatnonzero(row >= kth)
        found.append(items[np.argsort(-row[items], kind="stable")])
    query = np.repeat(np.arange(len(upper)), [len(items) for items in found])
    item = np.concatenate(found)
    return Candidates(query, item, upper[query, item], np.zeros(len(item), bool))


class TileSearch:
    """Search of all tiles with rising thresholds, for few neighbours.

    A threshold is the similarity that the wanted number of items is known to reach; one comparison dismisses all but a
    few entries of a tile. Each block of queries first meets its `home` tile, which sets its first threshold: the
    gallery items of about the same classes, if the caller has ordered both by class.

    Args:
        task: the search; symmetric if queries and gallery are the same rows.
        symmetric: compute one half of the tiles and use each for its rows and for its columns.
        block_size: rows and columns of a tile, at most; with many threads tiles are smaller (`tile_size`).
        num_threads: cores to keep busy; twice as many tiles are at work at a time.
    """

    def __init__(self, task: SearchTask, *, symmetric: bool, block_size: int, num_threads: int) -> None:
        self.task, self.symmetric, self.num_tasks = task, symmetric, _TASKS_PER_THREAD * num_threads
        self.item_bits = max(1, (len(task.gallery_rows) - 1).bit_length())
        block_size = tile_size(min(block_size, 1 << (32 - self.item_bits)), self.num_tasks)
        most = max(1, int(task.limits.max()))
        queries_at_once = block_size if symmetric else int(np.clip(_CUT_ENTRIES // most, 64, block_size))
        self.query_parts = slices(len(task.query_rows), queries_at_once)
        self.gallery_parts = slices(len(task.gallery_rows), block_size)
        self.gallery_width = np.empty((2, len(task.gallery_rows)))  # radius and margin
        self.query_width = self.gallery_width if symmetric else np.empty((2, len(task.query_rows)))
        self.columns: list = [None] * len(self.query_parts)
        self.blocks: list = [None] * len(self.query_parts)
        ratio = len(self.gallery_parts) / len(self.query_parts)
        self.home = [int((column + 0.5) * ratio) for column in range(len(self.query_parts))]

    def run(self) -> None:
        """Deliver the neighbours of every query block."""
        columns = range(len(self.query_parts))
        with ThreadPoolExecutor(self.num_tasks) as pool:
            if not self.symmetric:
                _for_each(pool, self._measure_gallery, range(len(self.gallery_parts)))
            _for_each(pool, self._measure_queries, columns)
            _for_each(pool, self._open_block, columns)
            _for_each(pool, self._visit_home, columns)
            _for_each(pool, self._visit_tiles, self._tasks())

    def _tasks(self) -> list[tuple[int, list[int]]]:
        tasks = []
        for row in range(len(self.gallery_parts)):
            first = row + 1 if self.symmetric else 0
            columns = [column for column in range(first, len(self.query_parts)) if self.home[column] != row]
            tasks += [(row, columns[i : i + _TILES_AT_ONCE]) for i in range(0, len(columns), _TILES_AT_ONCE)]
        return tasks

    def _measure_gallery(self, row: int) -> None:
        part, bounds = self.gallery_parts[row], self.task.bounds
        factors = bounds.factors(bounds.gallery, self.task.gallery_rows[part], np.float32)
        self.gallery_width[:, part] = factors.radius, factors.margin

    def _measure_queries(self, column: int) -> None:
        part, bounds = self.query_parts[column], self.task.bounds
        factors = bounds.factors(bounds.queries, self.task.query_rows[part], np.float32)
        self.query_width[:, part] = factors.radius, factors.margin
        with tf.device("/CPU:0"):
            self.columns[column] = tf.constant(factors.as_columns)

    def _open_block(self, column: int) -> None:
        part = self.query_parts[column]
        decision = self.task.decision(part, Slack(*self.query_width[:, part], *self.gallery_width))
        self.blocks[column] = CandidateBlock(decision, self.item_bits, len(self.gallery_parts))

    def _row_factors(self, row: int) -> np.ndarray:
        bounds, part = self.task.bounds, self.gallery_parts[row]
        if self.symmetric:
            return rows_of_columns(np.asarray(self.columns[row]))
        return bounds.factors(bounds.gallery, self.task.gallery_rows[part], np.float32).as_rows

    def _visit_home(self, column: int) -> None:
        row, block = self.home[column], self.blocks[column]
        tile = upper_bounds(self._row_factors(row), self.columns[column])
        widest = block.decision.slack.widest(self.gallery_parts[row])
        block.raise_threshold(_kth_largest(tile, block.decision.limits) - widest)
        thresholds = Thresholds(block.threshold, None)
        self._take(row, column, thresholds, *_passing(tile, thresholds))

    def _visit_tiles(self, tiles: tuple[int, list[int]]) -> None:
        row, columns = tiles
        factors = self._row_factors(row)
        with tf.device("/CPU:0"):
            factors = tf.constant(factors)
        for column in columns:
            of_rows = self.blocks[row].threshold if self.symmetric else None
            thresholds = Thresholds(self.blocks[column].threshold, of_rows)
            self._take(row, column, thresholds, *_passing(upper_bounds(factors, self.columns[column]), thresholds))

    def _take(
        self,
        row: int,
        column: int,
        thresholds: Thresholds,
        row_in_tile: np.ndarray,
        column_in_tile: np.ndarray,
        entries: np.ndarray,
    ) -> None:
        """Collect candidates of the tile's columns among its rows.

        With thresholds of rows, also those of its rows.
        """
        passed = entries >= thresholds.of_columns[column_in_tile]
        items = self.gallery_parts[row].start + row_in_tile[passed]
        self._add(column, column_in_tile[passed], items, entries[passed])
        if thresholds.of_rows is not None:
            passed = entries >= thresholds.of_rows[row_in_tile]
            items = self.query_parts[column].start + column_in_tile[passed]
            self._add(row, row_in_tile[passed], items, entries[passed])

    def _add(self, column: int, query: np.ndarray, item: np.ndarray, upper: np.ndarray) -> None:
        block, part = self.blocks[column], self.query_parts[column]
        if block.add(query, item, upper):
            self.task.deliver(np.arange(part.start, part.stop), block.finish())
            self.blocks[column] = None


def _passing(tile: np.ndarray, thresholds: Thresholds) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return rows and columns, uint32, of passing entries, and the entries.

    An entry passes if it reaches the threshold of its column or of its row. With thresholds of rows, a few that reach
    neither may be among them: one comparison with the lowest threshold is cheaper than two with all of them, as long as
    few entries pass it.
    """
    found, (of_columns, of_rows) = [], thresholds
    look_once = of_rows is not None
    step = max(1, _BYTES_IN_CACHE // max(1, tile[:1].nbytes))
    for start in range(0, len(tile), step):
        strip = tile[start : start + step]
        of_strip = None if of_rows is None else of_rows[start : start + step]
        if look_once and of_strip is not None:
            flat = np.flatnonzero(strip >= min(of_columns.min(), of_strip.min()))
            look_once = len(flat) <= _SPARSE * strip.size  # else neither here nor further below
        if not look_once:
            mask = strip >= of_columns
            if of_strip is not None:
                mask |= strip >= of_strip[:, np.newaxis]
            flat = np.flatnonzero(mask)
        found.append(flat.astype(np.uint32) + np.uint32(start * tile.shape[1]))
    flat = np.concatenate(found)
    row = flat // np.uint32(tile.shape[1])
    return row, flat - row * np.uint32(tile.shape[1]), tile.ravel()[flat]


def slices(length: int, step: int) -> list[slice]:
    """Return consecutive slices of `step` that cover `length`."""
    return [slice(start, min(start + step, length)) for start in range(0, length, step)]


def _kth_largest(tile: np.ndarray, limits: np.ndarray) -> np.ndarray:
    """Bound each column's `limits`-th largest entry from below.

    The bound is the `limits`-th largest maximum of groups of rows: -inf if the limit exceeds the number of groups,
    and +inf if it is 0.
    """
    group = 1
    while tile.shape[0] // (2 * group) >= 4 * max(1, limits.max()):
        group *= 2
    rows = tile.shape[0] // group * group
    maxima = np.sort(tile[:rows].reshape(group, rows // group, tile.shape[1]).max(axis=0).T, axis=1)
    num_groups = maxima.shape[1]
    kth = maxima[np.arange(tile.shape[1]), np.clip(num_groups - limits, 0, num_groups - 1)]
    kth = np.where(limits > num_groups, -np.inf, kth)
    return np.where(limits == 0, np.inf, kth)
