"""Rank correlations of a benchmark with printed tables: intervals, ceiling and verdict.

*Agreement*: Spearman's and Kendall's coefficient, over shared methods, between the benchmark's mean test figure and
the printed one of a data set.

*Interval*: percentile bootstrap over methods and runs. Of each fold's R repeats R - 1 are drawn with replacement,
which gives the mean of the draw the variance of the mean of R repeats (R draws would give (R - 1)/R of it). Without
repeats folds are drawn, the same for all methods. Methods are drawn with their drawn runs. A loss and all its variants
(memory, CCP, GSP, mining, regularisation) are a family; families are drawn whole, since a loss with a change is not
independent of the loss alone. Printed figures are taken as they are. Coverage of 95 % intervals was simulated once
(1,500 studies each; six losses with the variants of table 3.1 or 5.1; true coefficients from 0 to .8). It is 93.9 to
97.3 % if the loss explains half or more of the variance between methods, and 91.0 to 95.3 % if it explains none.
Methods drawn singly had 80 to 82 % if it explains nine tenths.

*Ceiling*: the same coefficient between the printed data sets themselves: no benchmark can be asked to rank methods more
like SOP than CUB does.

*Rule*: a benchmark may be called a stand-in for a data set if Spearman's coefficient is above half of the mean ceiling,
and no stand-in if it is below; in both cases at 5 % after Holm over the rows of the printed table, `ALL` included.
Otherwise the question is open. A p value is twice the smaller share of the bootstrap on one side of that threshold.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from common.errors import InvalidInput
from experiments.reports.comparisons import LEVEL, holm
from experiments.reports.correlations import draws_by_size, kendall_rows, spearman_rows

FEWEST_LOSSES = 5  # families, the draws of the bootstrap
SHARE_OF_CEILING = 0.5
_NUM_RESAMPLES = 2000  # of the bootstrap
ALL = "all"  # the mean over the printed data sets, over the methods that all of them have
STAND_IN, NO_STAND_IN, OPEN, NO_CEILING = "stand-in", "no stand-in", "inconclusive", "no ceiling"

Figures = Mapping[str, float]  # by method
Coefficient = Callable[[np.ndarray, np.ndarray], np.ndarray]  # along the last axis


class Bounds(NamedTuple):
    """Coefficient with 95 % interval, or mean, lowest, highest ceiling; in [-1, 1]."""

    value: float
    low: float
    high: float


class RankAgreement(NamedTuple):
    """Agreement of a benchmark with one printed data set or a whole table."""

    num_methods: int
    num_losses: int  # methods of one loss are drawn together
    spearman: Bounds  # coefficients with their intervals, like the next
    kendall: Bounds
    spearman_ceiling: Bounds | None  # between printed data sets, like the next; None without another one
    kendall_ceiling: Bounds | None
    p: float | None  # of Spearman's distance from the rule's threshold, after Holm; None without a positive ceiling

    @property
    def threshold(self) -> float | None:
        """Half of the mean ceiling of Spearman's coefficient; `None` without a positive one."""
        ceiling = self.spearman_ceiling
        return None if ceiling is None or ceiling.value <= 0 else SHARE_OF_CEILING * ceiling.value

    @property
    def verdict(self) -> str:
        """`STAND_IN`, `NO_STAND_IN` or `OPEN` by the rule; `NO_CEILING` without a positive ceiling."""
        if self.p is None or self.threshold is None:
            return NO_CEILING
        if self.p >= LEVEL:
            return OPEN
        return STAND_IN if self.spearman.value > self.threshold else NO_STAND_IN


def rank_agreements(trainings: Mapping[str, np.ndarray], printed: Mapping[str, Figures]) -> dict[str, RankAgreement]:
    """Compare with every printed data set of enough methods, and with `ALL` of them.

    Data sets of fewer than `FEWEST_LOSSES` losses are left out. Test figures of a method are `[folds, repeats]`.
    """
    printed = {dataset: figures for dataset, figures in printed.items() if len(families(figures)) >= FEWEST_LOSSES}
    folds = {values.shape[0] for values in trainings.values()}
    if len(folds) > 1:
        raise InvalidInput(
            f"Methods were trained on {' and '.join(map(str, sorted(folds)))} folds: expected one number of folds for "
            "all. Record runs of another protocol into a study of their own."
        )
    found = {}
    for dataset, figures in printed.items():
        others = [(figures, of) for name, of in printed.items() if name != dataset]
        found[dataset] = _agreement(trainings, [figures], others)
    shared = [method for method in trainings if all(method in figures for figures in printed.values())]
    if len(printed) > 1 and len(families(shared)) >= FEWEST_LOSSES:
        columns = [{method: figures[method] for method in shared} for figures in printed.values()]
        found[ALL] = _agreement(trainings, columns, list(itertools.combinations(columns, 2)))
    p_values = {name: of.p for name, of in found.items() if of.p is not None}
    adjusted = dict(zip(p_values, holm(list(p_values.values()))))
    return {name: of._replace(p=adjusted.get(name)) for name, of in found.items()}


def families(methods: Iterable[str]) -> list[list[int]]:
    """Return the places of the methods of each loss; methods are `LOSS[+...]`."""
    places: dict[str, list[int]] = {}
    for place, method in enumerate(methods):
        places.setdefault(method.partition("+")[0], []).append(place)
    return list(places.values())


def resampled_means(trainings: Sequence[np.ndarray], num_resamples: int, generator: np.random.Generator) -> np.ndarray:
    """Return means of drawn runs `[resamples, methods]` from each method's `[folds, repeats]`."""
    num_folds = trainings[0].shape[0]
    folds = generator.integers(num_folds, size=(num_resamples, max(num_folds - 1, 1)))
    columns = []
    for values in trainings:
        num_repeats = values.shape[1]
        if num_repeats == 1:
            drawn = values[folds, 0]
        else:
            repeats = generator.integers(num_repeats, size=(num_resamples, num_folds, num_repeats - 1))
            drawn = np.take_along_axis(values[None], repeats, axis=2)
        columns.append(drawn.reshape(num_resamples, -1).mean(axis=1))
    return np.stack(columns, axis=1)


def _agreement(trainings, columns: Sequence[Figures], pairs: Sequence[tuple[Figures, Figures]]) -> RankAgreement:
    """Bootstrap the mean coefficient over printed columns of the same methods."""
    methods = list(columns[0])
    values = [trainings[method] for method in methods]
    figures = np.array([[column[method] for method in methods] for column in columns])
    means = np.array([of.mean() for of in values])
    generator = np.random.default_rng(0)
    drawn_means, drawn = resampled_means(values, _NUM_RESAMPLES, generator), 0
    draws, losses = [], families(methods)
    for places in draws_by_size(losses, _NUM_RESAMPLES, generator):
        rows = slice(drawn, drawn := drawn + len(places))
        draws.append((np.take_along_axis(drawn_means[rows], places, axis=1), figures[:, places]))

    def resampled(coefficient: Coefficient) -> tuple[float, np.ndarray]:
        estimate = float(np.mean([coefficient(means, column) for column in figures]))
        found = [np.mean([coefficient(ours, theirs) for theirs in of_print], axis=0) for ours, of_print in draws]
        return estimate, np.concatenate(found)

    of_spearman, of_kendall = resampled(spearman_rows), resampled(kendall_rows)
    bounds, sizes = (_bounds(*of_spearman), _bounds(*of_kendall)), (len(methods), len(losses))
    found = RankAgreement(*sizes, *bounds, _ceiling(pairs, spearman_rows), _ceiling(pairs, kendall_rows), None)
    return found if found.threshold is None else found._replace(p=_p_value(of_spearman[1], found.threshold))


def _bounds(estimate: float, resampled: np.ndarray) -> Bounds:
    return Bounds(estimate, *map(float, np.nanpercentile(resampled, [2.5, 97.5])))


def _p_value(resampled: np.ndarray, threshold: float) -> float:
    """Return twice the smaller share of draws beside the threshold."""
    found = resampled[np.isfinite(resampled)]
    smaller = min((found <= threshold).sum(), (found >= threshold).sum())
    return min(1.0, 2 * (1 + int(smaller)) / (1 + len(found)))


def _ceiling(pairs: Sequence[tuple[Figures, Figures]], coefficient: Coefficient) -> Bounds | None:
    """Return mean, lowest and highest coefficient of column pairs over shared methods."""
    found = []
    for first, second in pairs:
        shared = [method for method in first if method in second]
        if len(families(shared)) >= FEWEST_LOSSES:
            ranked = (np.array([figures[method] for method in shared]) for figures in (first, second))
            found.append(float(coefficient(*ranked)))
    return Bounds(float(np.mean(found)), min(found), max(found)) if found else None
