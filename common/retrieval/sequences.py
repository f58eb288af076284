"""Matching of two sequences of embeddings, such as frames of videos, with temporal order."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy.spatial.distance import cdist

from common.errors import check_non_negative, invalid
from common.retrieval.search.similarity_bounds import coordinate_range

OUTLIER = 0  # the printed index of frames without a match


class SequenceMatch(NamedTuple):
    """Best correspondence of two sequences.

    Attributes:
        matches: pi `[frames]`, int64: from 1, the other sequence's frame; `OUTLIER` for none.
        cost: the minimum of the objective.
    """

    matches: np.ndarray
    cost: float


def match_sequences(
    frames: np.ndarray,
    others: np.ndarray,
    *,
    disorder: float,
    repetition: float,
    gap: float,
    outlier: float = np.inf,
) -> SequenceMatch:
    """Match each frame with a frame of another sequence, in order.

    Minimizes, over all maps pi from frames to other frames or to `OUTLIER`, the sum of

    - the squared distances `||x_j - x'_pi(j)||^2`, or `outlier` for a frame without a match,
    - `disorder` for each j with pi(j) > pi(j+1),
    - `repetition` for each j with pi(j) = pi(j+1),
    - `gap * (pi(j+1) - pi(j))` for each j with pi(j) + 1 < pi(j+1).

    The dissertation solves an integer program. Its objective is a chain, so dynamic programming is exact, in
    `frames * others^2` steps. Index 0 takes part in the order as printed: a frame after an outlier pays for the gap to
    the beginning of the other sequence. The cost of an outlier and the three weights are not printed.

    Reference: Milbich, dissertation, section 7.1.1, equations 7.1 and 7.2.

    Args:
        frames: embeddings in order, `[frames, dim]`.
        others: embeddings of the other sequence, `[others, dim]`.
        disorder, repetition, gap: lambda_1, lambda_2 and lambda_3, at least 0.
        outlier: at least 0; infinite: each frame has a match.

    Returns:
        The best correspondence; of equal ones, one with the earliest last frames.

    Raises:
        InvalidInput: embeddings that are empty, not finite or of two sizes, or negative weights.

    Examples:
        >>> frames = np.array([[0.0], [1.0], [0.0]])
        >>> match_sequences(frames, [[0.0], [1.0], [0.1]], disorder=1, repetition=1, gap=0.1).matches
        array([1, 2, 3])
    """
    for name, value in (("disorder", disorder), ("repetition", repetition), ("gap", gap), ("outlier", outlier)):
        check_non_negative(name, value)
    frames, others = np.asarray(frames, np.float64), np.asarray(others, np.float64)
    coordinate_range("frames", frames)
    coordinate_range("others", others)
    if frames.shape[1] != others.shape[1]:
        raise invalid("others", received=f"dimension {others.shape[1]}", expected=f"that of frames, {frames.shape[1]}")
    distances = cdist(frames, others, "sqeuclidean")
    costs = np.column_stack([np.full(len(frames), outlier), distances])  # [frames, others + 1]
    steps = _steps(len(others) + 1, disorder, repetition, gap)
    best, previous = costs[0], np.empty(costs.shape, np.int64)
    for place in range(1, len(frames)):
        totals = best[:, None] + steps  # [before, after]
        previous[place] = totals.argmin(axis=0)
        best = totals.min(axis=0) + costs[place]
    matches = np.empty(len(frames), np.int64)
    matches[-1] = best.argmin()
    for place in range(len(frames) - 1, 0, -1):
        matches[place - 1] = previous[place, matches[place]]
    return SequenceMatch(matches, float(best.min()))


def _steps(size: int, disorder: float, repetition: float, gap: float) -> np.ndarray:
    """Return the cost of consecutive matches `[before, after]`."""
    ahead = np.arange(size)[None] - np.arange(size)[:, None]
    return np.select([ahead < 0, ahead == 0, ahead > 1], [disorder, repetition, gap * np.maximum(ahead, 2)])
