"""Verdicts on reproduction: equivalence to a published figure within a fixed margin.

Two one-sided tests at 5 % each: `reproduced` when the 90 % interval of measured minus printed lies within the margin.
`above` and `below`: not so, and the interval excludes zero on that side. `inconclusive`: the interval is too wide for
either; so is every comparison in which our side was trained once, for its spread is not known. A noisy run is thus
never called a reproduction for being noisy.

The margin is half of the printed effect: of two rows' difference, half of it; of one cell, half of its row's printed
difference to its baseline. A cell without a baseline gets `TOLERANCE`. A printed "more than x" is a one-sided claim and
needs no margin: `reproduced` when the interval lies above x.

The interval holds our runs on *this* test set (the published figure is of the same classes), the published error
and its rounding. What the thesis gives as ± is the spread over collections of R repeats; the error of its mean follows
as ± / sqrt(R - 1), see `statistics`. Where it gives none, its runs are taken to spread like ours.

Reference: Schuirmann, "A comparison of the two one-sided tests procedure", 1987.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from common.errors import check_given
from experiments.published.values import PublishedValue
from experiments.reports.intervals import Interval, Variance, joined_half_width, student_quantile

TOLERANCE = 0.5  # points: the margin of a cell whose row has no printed effect
SIDE = 0.05  # level of each of the two tests
REPRODUCED, ABOVE, BELOW, INCONCLUSIVE = "reproduced", "above", "below", "inconclusive"
NOT_COMPARABLE = "not comparable"
HALF_DIGIT = 0.005  # printed figures are rounded to two decimals
_HALF_POINT = 0.5  # gains in the text to whole points


@dataclass(frozen=True)
class Target:
    """The printed figure to compare with, and the rule of the comparison."""

    published: PublishedValue | None  # the printed cell or, of two rows, their difference, in percent
    margin: float = TOLERANCE  # in points
    # why the two cannot be compared, from `incomparable_reasons` or the caller's own (a missing fold)
    reasons: tuple[str, ...] = ()
    error: Variance | None = None  # of the printed figure, in squared points; `None`: as ours
    rounding: float = HALF_DIGIT  # half of the last printed digit, in points
    at_least: bool = False  # the thesis says "more than"; the margin is then zero
    same_test_set: bool = True  # else the choice of classes counts as well


@dataclass(frozen=True)
class Verdict:
    """The judgement of a measured figure beside a printed one."""

    word: str  # `reproduced`, `above`, `below`, `inconclusive` or `not comparable`
    reason: str = ""  # of the last two; may be empty
    gap: float | None = None  # measured minus printed, in points; `None` where they are not comparable
    low: float | None = None  # the 90 % interval of the gap that the word rests on; `None` without one
    high: float | None = None
    margin: float | None = None  # that the word rests on, in points

    def __str__(self) -> str:
        return f"{self.word}: {self.reason}" if self.reason else self.word


def judge(mean: float, bounds: Interval | None, target: Target) -> Verdict:
    """Judge a measured figure, a fraction, against its target.

    Lost or doubtful cells are always refused.
    """
    published, objections = target.published, list(target.reasons)
    if published is None:
        objections.insert(0, "no published figure")
    elif not published.is_target:
        objections.insert(0, f"the printed cell is {published.status} ({published.note})")
    if published is None or published.value is None or objections:
        return Verdict(NOT_COMPARABLE, "; ".join(objections))
    gap, margin = 100 * mean - published.value, 0.0 if target.at_least else target.margin
    if bounds is None or bounds.training_error is None:
        return Verdict(INCONCLUSIVE, "trained once, so the spread of our side is not known", gap, margin=margin)
    low, high = _gap_interval(gap, bounds, target)
    is_reproduced = low > 0 if target.at_least else -margin <= low and high <= margin
    word = REPRODUCED if is_reproduced else ABOVE if low > 0 else BELOW if high < 0 else INCONCLUSIVE
    return Verdict(word, "", gap, low, high, margin)


def half_effect(first: PublishedValue | None, second: PublishedValue | None) -> float:
    """Return half of a row's printed difference to its baseline, or `TOLERANCE`."""
    if first is None or second is None or not (first.is_target and second.is_target):
        return TOLERANCE
    return abs(check_given("published value", first.value) - check_given("published value", second.value)) / 2


def published_difference(first: PublishedValue | None, second: PublishedValue | None) -> PublishedValue | None:
    """Subtract printed rows; lost or doubtful if either is, `None` if unprinted."""
    if first is None or second is None:
        return None
    unusable = [cell for cell in (first, second) if not cell.is_target]
    spread = None if first.std is None or second.std is None else math.hypot(first.std, second.std)
    value = None if first.value is None or second.value is None else first.value - second.value
    return dataclasses.replace(
        first,
        value=value,
        std=spread,
        note="; ".join(f"{cell.method}: {cell.note}" for cell in unusable),
        status=unusable[0].status if unusable else "printed",
        table=first.table if first.table == second.table else f"{first.table} and {second.table}",
        method=f"{first.method} minus {second.method}",
    )


def error_of_collections(std: float | None, folds: int = 4, repeats: int = 3) -> Variance | None:
    """Convert a printed ± over collections to the mean's error, if printed.

    The ± is sqrt(sum_k (R - 1)/R s_k^2) / F, the error of the mean sqrt(sum_k s_k^2 / R) / F.

    The variance is in squared points, of a ± in points.
    """
    return None if std is None else (std**2 / (repeats - 1), folds * (repeats - 1))


def error_of_mean(std: float | None, repeats: int) -> Variance | None:
    """Convert a std over independent repeats to the mean's error, if printed."""
    return None if std is None else (std**2 / repeats, repeats - 1)


def gain_verdict(gain: Interval | float, printed: float, *, at_least: bool = False) -> tuple[str, str]:
    """Judge a gain of MAP@R against one that the text prints to whole points.

    The text gives neither side's figures, and its test set is another one, so the whole interval counts.

    Args:
        gain: ours, as a fraction; a number where nothing was repeated.
        printed: in percentage points, above 0; the margin is half of it.
        at_least: the thesis says "more than": ours must lie above it.

    Returns:
        The verdict's word, and a sentence with both figures, interval and margin.
    """
    bounds = gain if isinstance(gain, Interval) else None
    mean = gain.estimate if isinstance(gain, Interval) else float(gain)
    target = Target(
        PublishedValue(printed, table="text", method="gain", metric="MAP@R"),
        margin=printed / 2,
        error=(0.0, 1),
        rounding=0.0 if at_least else _HALF_POINT,
        at_least=at_least,
        same_test_set=False,
    )
    said = judge(mean, bounds, target)
    ours = f"{100 * mean:+.1f} points"
    if said.low is None:
        ours += " (trained once, no spread known)"
    else:
        ours += f", minus published {said.gap:+.1f} [{said.low:+.1f}, {said.high:+.1f}]"
        ours += "" if at_least else f", margin {said.margin:.1f}"
    return (
        said.word,
        f"Thesis: {'more than ' if at_least else ''}{printed:+g} points of MAP@R. Ours: {ours}: {said.word}.",
    )


def _gap_interval(gap: float, bounds: Interval, target: Target) -> tuple[float, float]:
    """Return the 90 % interval, in points, of measured minus (rounded) printed."""
    of_choice = bounds.same_test_set() if target.same_test_set else bounds
    own = check_given("interval", of_choice).at(1 - 2 * SIDE)
    of_print = target.error
    if of_print is None:
        of_print = (1e4 * check_given("spread of training", bounds.training_error) ** 2, bounds.training_freedom)
    theirs = (of_print[0], student_quantile(1 - SIDE, of_print[1]))
    variance = 1e4 * own.error**2
    below, above = (
        joined_half_width([(variance, 100 * side / math.sqrt(variance) if variance else 0.0), theirs])
        for side in (own.estimate - own.low, own.high - own.estimate)
    )
    return gap - below - target.rounding, gap + above + target.rounding


HOLDS, FAILS, UNDECIDED = "holds", "fails", "undecided"
FEWEST_SETS = 5  # independent data sets; with three, effects of the thesis' size are mostly undecided
CLAIM_RULE = (
    "A claim holds if the interval of the mean over data sets lies above zero. It fails if that interval lies below "
    "half of the thesis' smallest gain. Otherwise it is undecided, as it is with fewer than "
    f"{FEWEST_SETS} independent data sets."
)


class SetSummary(NamedTuple):
    """A difference over data sets."""

    mean: float  # over data sets
    low: float  # ends of Student's 95 % interval for new data sets; NaN with one set
    high: float
    differences: tuple[float, ...]  # of each set


def summary_over_sets(differences: Sequence[float]) -> SetSummary:
    """Average differences over independent data sets, the unit of the summary."""
    mean, count = float(np.mean(differences)), len(differences)
    half = np.nan
    if count > 1:
        half = student_quantile(0.975, count - 1) * float(np.std(differences, ddof=1)) / math.sqrt(count)
    return SetSummary(mean, mean - half, mean + half, tuple(differences))


def claim_verdict(summary: SetSummary | None, smallest_gain: float = 0.0, fewest_sets: int = FEWEST_SETS) -> str:
    """Judge a claim by its differences over data sets: `holds`, `fails` or `undecided`.

    The rule is `CLAIM_RULE`. `benchmarks.interval_coverage` simulates its errors.

    Args:
        summary: relative to the baseline; None without a study.
        smallest_gain: the smallest that the thesis prints, relative to the baseline; 0: none.
        fewest_sets: with fewer independent sets there is no verdict.
    """
    if summary is None or len(summary.differences) < fewest_sets:
        return UNDECIDED
    if summary.high < max(smallest_gain, 0.0) / 2:
        return FAILS
    return HOLDS if summary.low > 0 else UNDECIDED
