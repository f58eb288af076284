"""Similarities of an index: cosine, inner product or negated Euclidean distance; larger is nearer."""

from __future__ import annotations

import typing
from typing import Literal

import numpy as np

from common.errors import check_choice, invalid

Metric = Literal["cosine", "inner_product", "euclidean"]
METRICS: tuple[str, ...] = typing.get_args(Metric)
_ROWS_AT_ONCE = 65_536
EQUAL_UP_TO = 1e-3  # distance of equal unit rows, due to float16 or another place in a batch
ALMOST_ONE = 0.997  # inner products of rows that near are not less, in any stored type
_NUMBERS_AT_ONCE = 2**22  # coordinates of pairs held in float64 at a time


def search_similarity(metric: str) -> str:
    """Return the `similarity` of `find_nearest_neighbors` that ranks rows as `metric` does."""
    return "euclidean" if check_choice("metric", metric, METRICS) == "euclidean" else "inner_product"


def stored_rows(embeddings: np.ndarray, metric: str, dtype: str, dim: int | None = None) -> tuple[np.ndarray, float]:
    """Return embeddings as an index stores them, and their largest rounding error.

    Args:
        embeddings: `[rows, dim]`, float16, float32 or float64.
        metric: for "cosine" rows are divided by their Euclidean norms.
        dtype: "float32" or "float16".
        dim: the required size; None allows any.

    Returns:
        Rows `[rows, dim]` of `dtype`, and the largest Euclidean distance between a row and its stored form. The
        distance is 0 for "float32", ignoring the rounding of float64 input. It bounds the error of an inner product
        with a unit vector.

    Raises:
        InvalidInput: a wrong shape or type, a number that is not finite or too large for `dtype`, or with "cosine" a
            row of zeros; it names the row.
    """
    embeddings = checked_embeddings("embeddings", embeddings, dim)
    stored = np.empty(embeddings.shape, dtype)
    error = 0.0
    for start in range(0, len(embeddings), _ROWS_AT_ONCE):
        part = slice(start, start + _ROWS_AT_ONCE)
        rows = unit_rows(embeddings[part], start) if metric == "cosine" else embeddings[part]
        with np.errstate(over="ignore"):
            stored[part] = rows
        if not np.isfinite(stored[part]).all():
            row = start + int(np.flatnonzero(~np.isfinite(stored[part]).all(axis=1))[0])
            fix = 'Build the index with dtype="float32", or scale the embeddings.'
            raise invalid(
                "embeddings", received=f"a number too large for {dtype} in row {row}", expected=dtype, fix=fix
            )
        if dtype == "float16":
            error = max(error, float(np.linalg.norm(rows - stored[part].astype(np.float32), axis=1).max()))
    return stored, error


def checked_embeddings(name: str, embeddings: np.ndarray, dim: int | None = None) -> np.ndarray:
    """Return `embeddings` `[rows, dim]` if valid, else raise `InvalidInput`.

    They must be finite floating-point numbers of that shape.

    Args:
        name: of the argument, for the error.
        embeddings: to be checked; may have no rows.
        dim: the required size; None allows any.
    """
    embeddings = np.asarray(embeddings)
    if embeddings.ndim != 2 or embeddings.shape[1] == 0 or embeddings.dtype not in (np.float16, np.float32, np.float64):
        raise invalid(
            name,
            received=f"{embeddings.dtype} array of shape {embeddings.shape}",
            expected="a float16, float32 or float64 array [rows, dim]",
        )
    if dim is not None and embeddings.shape[1] != dim:
        raise invalid(
            name,
            received=f"{embeddings.shape[1]} components",
            expected=f"{dim}, as the index has",
            fix="They come from different models: embed both with the same one.",
        )
    if not np.isfinite(embeddings).all():
        row = int(np.flatnonzero(~np.isfinite(embeddings).all(axis=1))[0])
        raise invalid(name, received=f"NaN or infinity in row {row} (from 0)", expected="finite numbers")
    return embeddings


def unit_rows(embeddings: np.ndarray, first_row: int = 0) -> np.ndarray:
    """Divide rows `[rows, dim]` by their Euclidean norms; refuse zeros.

    The result is float32, or float64 for float64.
    """
    embeddings = embeddings.astype(np.float64 if embeddings.dtype == np.float64 else np.float32)
    largest = np.abs(embeddings).max(axis=1, keepdims=True, initial=0.0)  # the square of a tiny number is zero
    if (largest == 0).any():
        row = first_row + int(np.flatnonzero(largest == 0)[0])
        raise invalid(
            "embeddings",
            received=f"zeros only in row {row} (from 0)",
            expected="a direction",
            fix='Leave the row out, or use metric="euclidean".',
        )
    embeddings /= largest
    embeddings /= np.linalg.norm(embeddings, axis=1, keepdims=True)
    return embeddings


def similarities_of(
    queries: np.ndarray,
    gallery: np.ndarray,
    rows: np.ndarray,
    metric: str,
    precision: type[np.floating] = np.float64,
) -> np.ndarray:
    """Compute similarities of each query with some rows of the gallery.

    Args:
        queries: `[queries, dim]`, of unit norm for "cosine".
        gallery: stored rows `[gallery, dim]`, perhaps memory-mapped: only the given ones are read.
        rows: `[queries, k]`, of `gallery`; -1 means none.
        metric: "cosine": <q, x>, and 1 for rows that are equal up to rounding (||q - x|| <= 0.001), no others
            reach 1; "inner_product": <q, x>; "euclidean": minus the distance, -||q - x||.
        precision: float64, or float32 to compare many roughly.

    Returns:
        Similarities `[queries, k]` in that precision; -inf for rows of -1.
    """
    found = np.empty(rows.shape, precision)
    step = max(1, _NUMBERS_AT_ONCE // max(1, rows.shape[1] * queries.shape[1]))
    for start in range(0, len(queries), step):
        part = slice(start, start + step)
        items = gallery[rows[part]].astype(precision, copy=False)  # [block, k, dim]
        block = queries[part].astype(precision)[:, np.newaxis]
        if metric == "euclidean":
            offsets = items - block
            found[part] = -np.sqrt(np.einsum("qkd,qkd->qk", offsets, offsets))
        else:
            found[part] = np.matmul(items, block.transpose(0, 2, 1))[..., 0]
        if metric == "cosine":
            np.minimum(found[part], 1 - EQUAL_UP_TO**2 / 2, out=found[part])
            query, place = np.nonzero(found[part] > ALMOST_ONE)
            is_equal = np.linalg.norm(items[query, place] - block[query, 0], axis=1) <= EQUAL_UP_TO
            found[part][query[is_equal], place[is_equal]] = 1
    found[rows < 0] = -np.inf
    return found
