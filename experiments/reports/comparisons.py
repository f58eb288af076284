"""Comparisons of a table as one family of tests.

Stars are Holm's over all comparisons of the table: about 5 % of tables in which no two methods differ carry a star
(`benchmarks.interval_coverage`). Only a comparison in which runs have a part is tested at all. Each has its own
variance of training: a variance shared by the comparisons of a table is too small for those whose runs differ most.

Reference: Holm, "A simple sequentially rejective multiple test procedure", 1979.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping, Sequence

import numpy as np

from experiments.reports.intervals import Interval

LEVEL = 0.05
Pair = tuple[str, str]  # (method, reference)


@dataclasses.dataclass(frozen=True)
class Comparison:
    """Test results of one difference in a table."""

    bounds: Interval  # the difference
    p: float | None  # of this difference alone; `None` if runs have no part in the interval
    p_holm: float | None  # after Holm over the table; `None` if untested
    # the smallest true difference that would be starred in 80 % of studies, whatever the others are; 0 if untested or
    # constant
    detectable: float

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
    p_values = {key: of.p_value() for key, of in differences.items() if of.training_error is not None}
    adjusted = dict(zip(p_values, holm(list(p_values.values()))))
    level = LEVEL / max(1, len(p_values))
    found = {}
    for key, of in differences.items():
        smallest = of.at(1 - level).detectable_difference() if key in p_values else 0.0
        found[key] = Comparison(of, p_values.get(key), adjusted.get(key), smallest)
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


def significant_digits(value: float, digits: int) -> str:
    """Format a positive number to `digits` significant digits, without an exponent."""
    decimals = digits - 1 - math.floor(math.log10(value))
    return f"{round(value, decimals):.{max(0, decimals)}f}"
