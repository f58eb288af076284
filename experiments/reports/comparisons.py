"""Joint comparisons of a table: pooled spread of runs and one family of tests.

*Pooling.* Each difference of a column has its own estimate of the variance that training adds, from few degrees of
freedom (four folds of one run: three), and widths that differ by luck. Where the comparisons of a column have the
same design (as many runs and degrees of freedom) and Bartlett's test at 10 % does not find their variances different,
all take the mean variance. Degrees of freedom add up where no two comparisons share a method. Two that share one have
correlated differences (1/2), so that their variances tell less than two: m comparisons of d degrees of freedom have
together m^2 d / sum_ij rho_ij^2. Single figures are not pooled: without repeats, rows share the effects of their folds.

*Many comparisons.* Stars are Holm's over all comparisons of the table: at most 5 % of tables in which no two methods
differ carry a star. Only a comparison in which runs have a part is tested at all.

Reference: Holm, "A simple sequentially rejective multiple test procedure", 1979; Bartlett, "Properties of sufficiency
and statistical tests", 1937.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping, Sequence

import numpy as np

from experiments.reports.intervals import Interval, Variance

LEVEL = 0.05
POOLING_LEVEL = 0.1  # of Bartlett's test
Pair = tuple[str, str]  # (method, reference)


@dataclasses.dataclass(frozen=True)
class Comparison:
    """Test results of one difference in a table."""

    bounds: Interval  # the difference; the training's part is pooled where that is allowed
    p: float | None  # of this difference alone; `None` if runs have no part in the interval
    p_holm: float | None  # after Holm over the table; `None` if untested
    # the smallest true difference that would be starred in 80 % of studies, whatever the others are; 0 if untested or
    # constant
    detectable: float
    num_pooled: int  # comparisons that share the training variance; 1: its own

    @property
    def is_significant(self) -> bool:
        """True if the difference is starred."""
        return self.p_holm is not None and self.p_holm < LEVEL

    @property
    def detectable_text(self) -> str:
        """The detectable difference in points, rounded as its degrees of freedom allow; or empty."""
        if not self.detectable:
            return ""
        return significant_digits(100 * self.detectable, 2 if self.bounds.freedom >= 50 else 1)


def compare(differences: Mapping[tuple[str, Pair], Interval]) -> dict[tuple[str, Pair], Comparison]:
    """Test the differences of a table, by column and pair of methods."""
    pooled: dict[tuple[str, Pair], Interval] = {}
    counts: dict[tuple[str, Pair], int] = {}
    for column in dict.fromkeys(name for name, _ in differences):
        keys = [key for key in differences if key[0] == column]
        for key, bounds, count in zip(keys, *_pooled([key[1] for key in keys], [differences[key] for key in keys])):
            pooled[key], counts[key] = bounds, count
    p_values = {key: of.p_value() for key, of in pooled.items() if of.training_error is not None}
    adjusted = dict(zip(p_values, holm(list(p_values.values()))))
    level = LEVEL / max(1, len(p_values))
    found = {}
    for key, of in pooled.items():
        smallest = of.at(1 - level).detectable_difference() if key in p_values else 0.0
        found[key] = Comparison(of, p_values.get(key), adjusted.get(key), smallest, counts[key])
    return found


def holm(p_values: Sequence[float]) -> list[float]:
    """Adjust p values by Holm's method.

    The k-th smallest of m is multiplied by m - k + 1, raised to any smaller one's result, and capped at 1.
    """
    values = np.asarray(p_values, np.float64)
    order = np.argsort(values)
    stepped = np.maximum.accumulate(values[order] * np.arange(len(values), 0, -1))
    adjusted = np.empty_like(values)
    adjusted[order] = np.minimum(stepped, 1.0)
    return [float(value) for value in adjusted]


def bartlett_p_value(variances: Sequence[Variance]) -> float:
    """Return the p value of Bartlett's test that positive variances are equal.

    `scipy.stats.bartlett` takes samples; this takes variances with their degrees of freedom.
    """
    from scipy.stats import chi2

    values, freedoms = (np.array(column, np.float64) for column in zip(*variances))
    total = freedoms.sum()
    joint = (values @ freedoms) / total
    statistic = total * np.log(joint) - freedoms @ np.log(values)
    correction = 1 + ((1 / freedoms).sum() - 1 / total) / (3 * (len(values) - 1))
    return float(chi2.sf(statistic / correction, len(values) - 1))


def significant_digits(value: float, digits: int) -> str:
    """Format a positive number to `digits` significant digits, without an exponent."""
    decimals = digits - 1 - math.floor(math.log10(value))
    return f"{round(value, decimals):.{max(0, decimals)}f}"


def _pooled(pairs: Sequence[Pair], bounds: Sequence[Interval]) -> tuple[list[Interval], list[int]]:
    """Pool the training's part of a column's intervals; also return pool sizes."""
    known = {
        place: (of.training_error**2, of.training_freedom)
        for place, of in enumerate(bounds)
        if of.training_error  # neither unknown nor a method against itself
    }
    usable, variances = list(known), list(known.values())
    designs = {(bounds[place].training_freedom, bounds[place].num_runs) for place in usable}
    if len(usable) < 2 or len(designs) != 1 or bartlett_p_value(variances) < POOLING_LEVEL:
        return list(bounds), [1] * len(bounds)
    correlations = [[_correlation(pairs[first], pairs[second]) for second in usable] for first in usable]
    joint = float(np.mean([variance for variance, _ in variances]))
    freedom = len(usable) ** 2 * variances[0][1] / float(np.square(correlations).sum())
    found, counts = list(bounds), [1] * len(bounds)
    for place in usable:
        found[place], counts[place] = bounds[place].with_training((joint, freedom)), len(usable)
    return found, counts


def _correlation(first: Pair, second: Pair) -> float:
    """Return the correlation of two differences between independent, equally spread methods."""
    shared = len(set(first) & set(second))
    return 1.0 if first == second else 0.5 * (shared > 0)
