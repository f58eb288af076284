"""Upper bounds in bfloat16, which dismiss most pairs.

They take half the time if the processor multiplies such numbers.
"""

from __future__ import annotations

import functools
import os
from pathlib import Path
from typing import NamedTuple

import numpy as np
import tensorflow as tf

from common.retrieval.search.candidates import Slack
from common.retrieval.search.similarity_bounds import pair_bounds

COARSE_BYTES = 2**31  # of the copies of all embeddings that a coarse search holds; with more it is one of float32
_PROCESSOR_FLAGS = ("avx512_bf16", "amx_bf16")
_BFLOAT16 = tf.bfloat16.as_numpy_dtype
_EXTRA_COLUMNS = 8  # three of ones, three of an offset, two of a width
_ROUNDED_UP = 1.008  # times this, a number does not become smaller when it is rounded to bfloat16
_LAST_ROUNDING = 2.0**-7  # of a sum to bfloat16, relative, whichever way it goes
_COORDINATES_AT_ONCE = 2**20  # of pairs that are looked at one by one
_TINY = 1e-30
_PROCESSORS = Path("/proc/cpuinfo")
_CAUTION = 4.0  # times the width that float32 sums need


class CoarseBounds:
    r"""Rows whose bfloat16 inner products are upper bounds of similarities.

    They also bound the inner products of float32 `Factors`. With the vectors a and their bfloat16 roundings s, both
    inner products exact,

        <a_i, a_j> <= <s_i, s_j> + |a_i - s_i| N_j + N_i |a_j - s_j|,    N = max(|a|, |s|)

    so two more columns hold the possible loss by rounding, and three the offsets, each as a sum of three bfloat16
    numbers. Products of such numbers are exact in float32, in which processors add them up; the width of those sums,
    gamma = (1.01 dim + 24) u of float32, is in the columns, too. The last rounding, of a sum to bfloat16, is monotone
    and leaves bfloat16 numbers unchanged. It costs no width, because a sum is compared with a bfloat16 threshold.

    Similarities of `SimilarityBounds` with "euclidean" are never above 0. Bit patterns of negative numbers grow with
    their size, so "similarity >= threshold" is "pattern < limit" of unsigned integers, which NumPy compares fast.

    Args:
        columns: `Factors.as_columns` `[rows, dim + 3]`, float32.

    Attributes:
        width: the possible loss by rounding in the product with a vector of length 1, `[rows]`.
        length: at least |a|, `[rows]`.
        offset_width: the possible loss of the offset in the sum, `[rows]`.
    """

    def __init__(self, columns: np.ndarray) -> None:
        dim = columns.shape[1] - 3
        vectors, offset = columns[:, :dim], columns[:, dim + 1].astype(np.float64)
        short = vectors.astype(_BFLOAT16)
        rounded = short.astype(np.float32)
        gamma = _CAUTION * (1.01 * dim + 24) * np.finfo(np.float32).eps / 2
        self.length = 1.001 * np.maximum(np.linalg.norm(vectors, axis=1), np.linalg.norm(rounded, axis=1))
        self.width = 1.01 * np.linalg.norm(vectors - rounded, axis=1) + gamma * self.length
        as_columns = np.ones((len(columns), dim + _EXTRA_COLUMNS), _BFLOAT16)
        as_columns[:, :dim] = short
        self.offset_width = gamma * np.abs(offset)
        rest = (offset + self.offset_width).astype(np.float32)
        for column in range(dim + 3, dim + 6):
            as_columns[:, column] = rest
            rest = rest - as_columns[:, column].astype(np.float32)
        as_columns[:, dim + 6] = _ROUNDED_UP * self.length
        as_columns[:, dim + 7] = _ROUNDED_UP * self.width
        order = [*range(dim), dim + 3, dim + 4, dim + 5, dim, dim + 1, dim + 2, dim + 7, dim + 6]
        with tf.device("/CPU:0"):
            self.as_columns = tf.constant(as_columns)
            self.as_rows = tf.gather(self.as_columns, order, axis=1)

    def patterns(self, columns: CoarseBounds) -> np.ndarray:
        """Return bit patterns of all pairs' upper bounds.

        uint16 `[rows, rows of columns]`.
        """
        with tf.device("/CPU:0"):
            return np.asarray(tf.bitcast(tf.matmul(self.as_rows, columns.as_columns, transpose_b=True), tf.uint16))


class CoarseSide:
    """All queries, or the whole gallery, in float32 and in bfloat16.

    Args:
        parts: slices of rows that make tiles.
        dim: number of components of a vector.
    """

    def __init__(self, parts: list[slice], dim: int) -> None:
        self.parts = parts
        self.factors = np.empty((parts[-1].stop, dim + 3), np.float32)
        self.bounds: list = [None] * len(parts)
        self.widths = np.empty((3, parts[-1].stop))  # `width`, `length` and `offset_width` of `CoarseBounds`

    def measure(self, index: int, columns: np.ndarray) -> None:
        """Store the `Factors.as_columns` of a part."""
        part = self.parts[index]
        self.factors[part] = columns
        self.bounds[index] = bounds = CoarseBounds(columns)
        self.widths[:, part] = bounds.width, bounds.length, bounds.offset_width


class CoarseSlack(NamedTuple):
    """The slack of coarse bounds, and the float32 bounds of undecided pairs."""

    slack: Slack
    query_factors: np.ndarray  # [queries, dim + 3]
    gallery_factors: np.ndarray  # [gallery, dim + 3]

    def lower(self, query: np.ndarray, item: np.ndarray, upper: np.ndarray) -> np.ndarray:
        """Return lower bounds of similarities from coarse (or float32) upper ones."""
        return upper - self.slack.of(query, item) - _LAST_ROUNDING * np.abs(upper)

    def float32_upper(self, query: np.ndarray, item: np.ndarray) -> np.ndarray:
        """Return upper bounds `[pairs]` as float32 tiles compute them.

        They differ in the order of the sum.
        """
        upper = np.empty(len(query), np.float32)
        step = max(1, _COORDINATES_AT_ONCE // self.query_factors.shape[1])
        for start in range(0, len(upper), step):
            part = slice(start, start + step)
            upper[part] = pair_bounds(self.query_factors[query[part]], self.gallery_factors[item[part]])
        return upper


def coarse_widths(
    queries: CoarseSide, query_width: np.ndarray, gallery: CoarseSide, gallery_width: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Compute coarse bounds' radius and margin from those of float32 bounds.

    They are `[2, queries]` and `[2, gallery]`. The widths of a pair are w_i N_j + N_i w_j <= 2 rho N_i N_j, with rho
    the largest w / N. This width applies to the product of the rounded vectors and also to the columns of the widths.
    """
    rho = max(float(np.max(side.widths[0] / np.maximum(side.widths[1], _TINY))) for side in (queries, gallery))

    def widened(side: CoarseSide, width: np.ndarray) -> np.ndarray:
        radius, margin = width
        wide = np.sqrt(radius**2 + 2.0 * _ROUNDED_UP**4 * rho * side.widths[1] ** 2)
        return np.stack([wide, margin + side.widths[2]])

    of_queries = widened(queries, query_width)
    return of_queries, of_queries if queries is gallery else widened(gallery, gallery_width)


def coarse_bytes(num_rows: int, dim: int) -> int:
    """Return the bytes of the copies in a `CoarseSide`.

    Both bfloat16 layouts of its rows are counted.
    """
    return num_rows * (4 * (dim + 3) + 2 * 2 * (dim + _EXTRA_COLUMNS) + 8 * 3)


def upper_of_patterns(patterns: np.ndarray) -> np.ndarray:
    """Convert bit patterns to float32 numbers."""
    return (patterns.astype(np.uint32) << np.uint32(16)).view(np.float32)


def pattern_limits(thresholds: np.ndarray) -> np.ndarray:
    """Return the smallest pattern, uint16, that misses each float32 threshold.

    Thresholds are up to 0, or +inf.
    """
    bits = thresholds.view(np.uint32).astype(np.int64)
    away_from_zero = (bits + 0xFFFF) >> 16  # of negative numbers: rounded towards -inf
    limits = np.where(thresholds < 0, away_from_zero, 0x8000) + 1
    return np.where(thresholds == np.inf, 0, limits).astype(np.uint16)


@functools.lru_cache(maxsize=1)
def is_fast() -> bool:
    """Return whether bfloat16 products are fast, with sums in float32.

    True if the processor multiplies such numbers and TensorFlow lets it.
    """
    return os.environ.get("TF_ENABLE_ONEDNN_OPTS", "1") != "0" and _has_instructions() and sums_are_float32()


def sums_are_float32() -> bool:
    """Return whether products of bfloat16 are summed in float32.

    1 and 1,024 times 2^-9 then make 3, without rounding.
    """
    left, right = np.ones((16, 1025), _BFLOAT16), np.full((16, 1025), 2.0**-9, _BFLOAT16)
    right[:, 0] = 1.0
    with tf.device("/CPU:0"):
        sums = tf.matmul(tf.constant(left), tf.constant(right), transpose_b=True)
    return bool(np.all(np.asarray(tf.cast(sums, tf.float32)) == 3.0))


def _has_instructions() -> bool:
    """Return whether Linux lists bfloat16 products among the processor's instructions.

    False on other systems.
    """
    try:
        listed = _PROCESSORS.read_text().split()
    except OSError:
        return False
    return any(flag in listed for flag in _PROCESSOR_FLAGS)
