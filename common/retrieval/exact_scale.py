"""Exact scaling of embeddings of any size to numbers of order one."""

from __future__ import annotations

import numpy as np

from common.retrieval.search.similarity_bounds import coordinate_range


def brought_to_one(name: str, embeddings: np.ndarray) -> tuple[np.ndarray, int]:
    """Scale embeddings by a power of two to order one.

    Returns `embeddings * 2^-exponent` in float64, with the largest coordinate in [1/2, 1), and the exponent.

    Squares of coordinates around 1e200 overflow and those around 1e-200 vanish; in float32, 1e20 and 1e-25 do. A power
    of two changes no digit, except in coordinates below 1e-300 of the largest. Scale-free figures are therefore the
    same to the last bit; others follow by `np.ldexp(figure, exponent)`.

    Args:
        name: of the argument, for the error.
        embeddings: `[items, dim]`, float16, float32 or float64, finite; all zero stays zero.

    Raises:
        InvalidInput: an embedding that is not finite (the first bad row is named), or a wrong shape or type.
    """
    low, high = coordinate_range(name, embeddings)
    exponent = int(np.frexp(max(-low.min(), high.max()))[1])
    return np.ldexp(embeddings.astype(np.float64), -exponent), exponent


def unit_rows(points: np.ndarray) -> np.ndarray:
    """Bring vectors `[items, dim]`, float64, to unit length; a zero vector stays zero."""
    exponents = np.frexp(np.abs(points).max(axis=1, keepdims=True))[1]
    points = np.ldexp(points, -exponents)  # changes no digit, and no square overflows or vanishes
    norms = np.linalg.norm(points, axis=1, keepdims=True)
    return points / np.where(norms > 0, norms, 1.0)
