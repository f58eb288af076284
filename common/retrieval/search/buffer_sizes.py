"""Buffer sizes that bound a search's memory for any number of cores."""

from __future__ import annotations

import math
from typing import NamedTuple

TILE_BYTES = 512 * 2**20  # of all float32 tiles that are at work at a time
DENSE_BYTES = 512 * 2**20  # of all float64 rows that threads hold at a time
_MOST_ROWS = 256  # of one thread: more make no product faster


def tile_size(block_size: int, num_tiles: int) -> int:
    """Return the rows and columns of a float32 tile.

    At most `block_size`, and so that all tiles take at most `TILE_BYTES`.

    Args:
        block_size: wanted, at least 1.
        num_tiles: at work at a time, at least 1.
    """
    return max(1, min(block_size, math.isqrt(TILE_BYTES // (4 * num_tiles))))


class DenseRows(NamedTuple):
    """The division of full float64 rows of the similarity matrix among threads.

    Attributes:
        rows: that one thread holds at a time.
        num_threads: that work at once.
    """

    rows: int
    num_threads: int


def dense_rows(num_columns: int, num_threads: int, most_entries: int) -> DenseRows:
    """Choose the rows per thread within `DENSE_BYTES` in total.

    At the least, one thread holds one row. If one row for each thread does not fit, fewer threads work.

    Args:
        num_columns: of a row: the size of the gallery, at least 1.
        num_threads: that may work, at least 1.
        most_entries: that one thread holds, however few there are.
    """
    num_threads = max(1, min(num_threads, DENSE_BYTES // (8 * num_columns)))
    entries = min(most_entries, DENSE_BYTES // (8 * num_threads))
    return DenseRows(max(1, min(entries // num_columns, _MOST_ROWS)), num_threads)
