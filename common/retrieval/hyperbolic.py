"""Exact retrieval by hyperbolic distance, as a search by inner product."""

from __future__ import annotations

import math

import numpy as np

from common.errors import check_positive


def lorentz_factors(tangents: np.ndarray, curvature: float) -> tuple[np.ndarray, np.ndarray]:
    """Return vectors whose inner products order pairs by hyperbolic distance d.

    On the hyperboloid, `cosh(√c d) = x₀ y₀ - <x, y>`. So the inner product of a query's vector and an item's is
    `-cosh(√c d)`: the largest one has the smallest distance.

    Args:
        tangents: tangent vectors at the origin `[items, dim]`, embeddings times the radius of `HyperbolicLoss`.
        curvature: c of the curvature -c, greater than 0.

    Returns:
        The vectors of the points as queries and as items, both `[items, dim + 1]`, float64.

    Examples:
        Retrieval of each point among the others, in `evaluate_retrieval`:

        >>> queries, items = lorentz_factors(np.float32([[0.0, 0.1], [0.0, 0.2], [3.0, 0.0], [2.0, 0.0]]), 1.0)
        >>> arguments = {"similarity": "inner_product", "exclude_same_row": True}
        >>> evaluate_retrieval(queries, np.array([0, 0, 1, 1]), items, np.array([0, 0, 1, 1]), **arguments).map_at_r
        1.0
    """
    root = math.sqrt(check_positive("curvature", curvature))
    vectors = np.asarray(tangents, np.float64)
    lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
    directions = vectors / np.where(lengths == 0.0, 1.0, lengths)
    space, time = directions * np.sinh(2.0 * root * lengths), np.cosh(2.0 * root * lengths)
    return np.hstack([space, time]), np.hstack([space, -time])
