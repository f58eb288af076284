"""Arrangement of embeddings in a plane by t-SNE."""

from __future__ import annotations

import numpy as np

FEWEST_POINTS = 4  # that can be arranged


def perplexity_of(num_points: int) -> float:
    """Return the perplexity of t-SNE."""
    return min(30.0, (num_points - 1) / 3)


def plane(vectors: np.ndarray) -> np.ndarray:
    """Arrange four or more `[points, dim]` in the unit square by t-SNE."""
    from sklearn.manifold import TSNE
    from threadpoolctl import threadpool_limits

    perplexity, start = perplexity_of(len(vectors)), "pca" if vectors.shape[1] > 1 else "random"
    with threadpool_limits(1):  # few points are faster on one core, and the map does not depend on their number
        points = TSNE(perplexity=perplexity, init=start, random_state=0, n_jobs=1).fit_transform(vectors)
    low, high = points.min(axis=0), points.max(axis=0)
    return (points - low) / np.maximum(high - low, 1e-9)
