"""Similarities in two precisions: fast upper bounds propose, exact values decide."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from common.errors import check_choice, invalid

SIMILARITIES = ("euclidean", "inner_product")
_PAIRS_AT_ONCE = 2**21  # coordinates of exact pairs held in memory at a time
_ROWS_AT_ONCE = 2**20  # coordinates of embeddings converted to float64 at a time
_TINY = 1e-30  # absorbs underflow


class Factors(NamedTuple):
    """Rows whose inner products are upper bounds of similarities.

    They include the components of the bounds' width. `as_rows` and `as_columns` hold the same numbers; only the two
    columns of the offsets change places.
    """

    as_columns: np.ndarray  # [rows, dim + 3]: vector, 1, offset + margin, radius
    radius: np.ndarray  # [rows]
    margin: np.ndarray  # [rows]

    @property
    def as_rows(self) -> np.ndarray:
        """The left factor `[rows, dim + 3]`: vector, offset + margin, 1, radius."""
        return rows_of_columns(self.as_columns)


class SimilarityBounds:
    r"""Proposes with a matrix product in low precision, decides in float64.

    With the gallery's mean m, a scale s and a = (x - m) / s, both orders become one inner product,

        Euclidean:      -||x_i - x_j||^2 / 2s^2        = <a_i, a_j> + b_i + b_j,  b = -||a||^2 / 2
        inner product:  (<x_i, x_j> - ||m||^2) / s^2   = <a_i, a_j> + b_i + b_j,  b = <m, a> / s

    The mean costs nothing and keeps the resolution of embeddings that have nearly collapsed to a point. A product of
    `dim` terms rounded in any order is within gamma = (1.01 dim + 16) u of the truth, relative to the sum of the
    absolute terms (u is the unit roundoff; Higham, Accuracy and Stability of Numerical Algorithms, section 3.1; the
    surplus pays for casting). That width is folded into three more columns, so that the product is an upper bound:

        D_ij <= upper_ij <= D_ij + 2 (r_i r_j + h_i + h_j),   r = sqrt(gamma) ||a||,   h = gamma |b|.

    `exact` decides pairs that the bounds leave open; its value for a pair depends only on that pair.

    Args:
        queries: embeddings `[queries, dim]`, float16, float32 or float64, finite.
        gallery: embeddings `[gallery, dim]`; the same object as `queries` for self-retrieval.
        similarity: "euclidean" or "inner_product".

    Raises:
        InvalidInput: an embedding that is not finite (the first bad row is named), or a wrong shape or type.
    """

    def __init__(self, queries: np.ndarray, gallery: np.ndarray, similarity: str) -> None:
        self.similarity = check_choice("similarity", similarity, SIMILARITIES)
        self.queries, self.gallery = queries, gallery
        low, high = coordinate_range("embeddings" if queries is gallery else "gallery embeddings", gallery)
        if queries is not gallery:
            query_low, query_high = coordinate_range("query embeddings", queries)
            low, high = np.minimum(low, query_low), np.maximum(high, query_high)
        largest = max(-low.min(), high.max())
        # A power of two changes no digit. It is needed only where squares in float64 would overflow or vanish; that of
        # the smallest subnormal numbers is not a float64 itself, and the largest there is does as well.
        is_ordinary = 1e-100 < largest < 1e100 or largest == 0.0
        self.unit = 1.0 if is_ordinary else 2.0 ** min(-float(np.frexp(largest)[1]), 1023.0)
        self.mean = _mean(gallery, self.unit)
        spread = np.maximum(np.abs(low * self.unit - self.mean), np.abs(high * self.unit - self.mean))
        self.scale = float(np.linalg.norm(spread)) or 1.0

    def factors(self, embeddings: np.ndarray, rows: np.ndarray, dtype: type[np.floating]) -> Factors:
        """Return factors of rows, for products in `dtype` (float32 or float64)."""
        dim = embeddings.shape[1]
        gamma, gamma64 = ((1.01 * dim + 16) * np.finfo(kind).eps / 2 for kind in (dtype, np.float64))
        raw = embeddings[rows].astype(np.float64)
        if self.unit != 1.0:
            raw *= self.unit
        vectors = (raw - self.mean) / self.scale
        norms = np.sqrt(np.einsum("ij,ij->i", vectors, vectors))
        radius = np.sqrt(gamma) * norms
        if self.similarity == "euclidean":
            offset = -0.5 * norms**2
            margin = (gamma + 2 * gamma64) * np.abs(offset) + _TINY  # float64: the offset and the decision round, too
        else:
            mean = self.mean / self.scale
            offset = vectors @ mean
            # The decision is a float64 inner product of the raw embeddings: its own rounding is undecided, too.
            radius += np.sqrt(2 * gamma64) * np.linalg.norm(raw, axis=1) / self.scale
            margin = gamma * np.abs(offset) + 2 * gamma64 * np.linalg.norm(mean) * norms + _TINY
        columns = np.empty((len(rows), dim + 3), dtype)
        columns[:, :dim] = vectors
        columns[:, dim], columns[:, dim + 1], columns[:, dim + 2] = 1.0, offset + margin, radius
        return Factors(columns, 1.001 * radius, 1.001 * margin)

    def exact(self, query_rows: np.ndarray, gallery_rows: np.ndarray) -> np.ndarray:
        """Return float64 similarities `[pairs]` of (query row, gallery row).

        They are -||x_i - x_j||^2 or <x_i, x_j>, in raw units up to the power of two `unit`^2. The order of the sum over
        coordinates depends on `dim` alone.
        """
        values = np.empty(len(query_rows), np.float64)
        step = max(1, _PAIRS_AT_ONCE // max(1, self.queries.shape[1]))
        for start in range(0, len(values), step):
            part = slice(start, start + step)
            left = self.queries[query_rows[part]].astype(np.float64) * self.unit
            right = self.gallery[gallery_rows[part]].astype(np.float64) * self.unit
            if self.similarity == "euclidean":
                left -= right
                values[part] = -np.add.reduce(left * left, axis=1)
            else:
                values[part] = np.add.reduce(left * right, axis=1)
        return values


def rows_of_columns(columns: np.ndarray) -> np.ndarray:
    """Convert right factors `columns` to left factors, both `[rows, dim + 3]`."""
    dim = columns.shape[1] - 3
    return columns[:, [*range(dim), dim + 1, dim, dim + 2]]


def row_blocks(array: np.ndarray) -> Iterator[slice]:
    """Yield slices of rows whose float64 copies take a few MB."""
    step = max(1, _ROWS_AT_ONCE // max(1, array.shape[1]))
    return (slice(start, start + step) for start in range(0, len(array), step))


def coordinate_range(name: str, embeddings: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return each coordinate's smallest and largest value `[dim]`, float64.

    Raises:
        InvalidInput: at the first bad row.
    """
    if embeddings.ndim != 2 or 0 in embeddings.shape or embeddings.dtype not in (np.float16, np.float32, np.float64):
        raise invalid(
            name,
            received=f"{embeddings.dtype} array of shape {embeddings.shape}",
            expected="a non-empty float16, float32 or float64 array [items, dim]",
        )
    low, high = [], []
    for part in row_blocks(embeddings):
        low.append(embeddings[part].min(axis=0))
        high.append(embeddings[part].max(axis=0))
        if not np.isfinite(low[-1]).all() or not np.isfinite(high[-1]).all():
            bad = part.start + int(np.flatnonzero(~np.isfinite(embeddings[part]).all(axis=1))[0])
            raise invalid(
                name,
                received=f"NaN or infinity in row {bad}",
                expected="finite numbers",
                fix="The model has diverged, or the file is damaged; row numbers count from 0.",
            )
    return np.min(low, axis=0).astype(np.float64), np.max(high, axis=0).astype(np.float64)


def _mean(embeddings: np.ndarray, unit: float) -> np.ndarray:
    total = np.zeros(embeddings.shape[1])
    for part in row_blocks(embeddings):
        block = embeddings[part]
        total += block.sum(axis=0, dtype=np.float64) if unit == 1.0 else (block.astype(np.float64) * unit).sum(axis=0)
    return total / len(embeddings)
