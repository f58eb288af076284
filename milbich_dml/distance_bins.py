"""Bins of distances, without TensorFlow: settings are checked before it is imported."""

from __future__ import annotations

import numpy as np

SMALLEST, LARGEST = 1e-25, 1e25  # of a bin's weight before it is normalised


def bin_edges(num_bins: int, low: float, high: float) -> np.ndarray:
    """Return the edges of bins of equal width, `[num_bins + 1]`."""
    return np.linspace(low, high, num_bins + 1)


def has_center_in(edges: np.ndarray, interval: tuple[float, float]) -> np.ndarray:
    """Return whether each bin's centre lies in a closed interval, bool `[bins]`.

    Args:
        edges: of the bins, `[bins + 1]`.
        interval: lower and upper end.
    """
    centers = (edges[1:] + edges[:-1]) / 2
    return (centers >= interval[0]) & (centers <= interval[1])
