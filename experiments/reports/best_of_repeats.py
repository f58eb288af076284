"""The best of several repeats, as the conventional tables print it, and its spread.

The best of R repeats lies above their mean: for normal figures with standard deviation s by 0.56 s, 0.85 s, 1.03 s
(R = 2, 3, 4). It varies less than a single repeat, by `spread_of_best(R)` times s.
"""

from __future__ import annotations

import dataclasses
import functools
from statistics import NormalDist

import numpy as np

from experiments.reports.intervals import Interval, Variance, interval
from experiments.reports.statistics import ClassScores, class_clustered_interval
from experiments.reports.tables import TableCell


@functools.cache
def spread_of_best(count: int) -> float:
    """Return the standard deviation of the largest of `count` standard normal numbers."""
    points = np.linspace(-9, 9, 20_001)
    cumulative = np.array([NormalDist().cdf(point) for point in points]) ** count
    weights, centers = np.diff(cumulative), (points[1:] + points[:-1]) / 2
    mean = float(weights @ centers)
    return float(np.sqrt(weights @ (centers - mean) ** 2))


def best_repeat(scores: ClassScores) -> int:
    """Return the repeat (row) with the largest mean, the first of equals."""
    return int(np.argmax(scores.means))


def best_estimate(scores: ClassScores, best: int, decides: bool) -> TableCell:
    """Estimate the best repeat, for new test classes and sets of runs.

    Args:
        scores: of every repeat, a row each.
        best: the row that is reported.
        decides: whether it was chosen by these scores; otherwise by others, and then it varies like any repeat.
    """
    return _estimate(class_clustered_interval(scores.rows([best])), _best_variance(scores, decides))


def mean_estimate(scores: ClassScores) -> TableCell:
    """Estimate the mean over repeats, for new test classes and new runs."""
    members = [[(0, repeat)] for repeat in range(len(scores.sums))]
    bound = class_clustered_interval(scores, members=members)
    spread = float(scores.means.std(ddof=1)) if len(scores.sums) > 1 else None
    return TableCell(bound.estimate, spread, bound)


def optimism_estimate(scores: ClassScores, unbiased_scores: ClassScores, best: int, decides: bool) -> TableCell:
    """Subtract the unbiased repeats' mean from the best repeat, stopped on the test set."""
    bound = class_clustered_interval(scores.rows([best]).minus(unbiased_scores.average()))
    of_training, of_best = None, _best_variance(scores, decides)
    if of_best is not None and len(unbiased_scores.sums) > 1:
        of_mean = float(unbiased_scores.means.var(ddof=1)) / len(unbiased_scores.sums)
        of_training = (of_best[0] + of_mean, min(len(scores.sums), len(unbiased_scores.sums)) - 1)
    return _estimate(bound, of_training)


def _best_variance(scores: ClassScores, decides: bool) -> Variance | None:
    """Return the training variance of the best repeat; `None` for one repeat."""
    count = len(scores.sums)
    if count == 1:
        return None
    share = spread_of_best(count) if decides else 1.0
    return share**2 * float(scores.means.var(ddof=1)), count - 1


def _estimate(bound: Interval, of_training: Variance | None) -> TableCell:
    found = interval(bound.estimate, (bound.class_error**2, bound.class_freedom), of_training)
    return TableCell(bound.estimate, None, dataclasses.replace(found, same_splits=True))
