"""Confidence intervals split by source of width: choice of test classes, and training."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

Variance = tuple[float, float]  # (variance of an estimate, degrees of freedom that it was estimated with)

CLASSES, TRAININGS, BOTH = "classes only", "runs only", "classes and runs"
SAME_SPLITS = "classes and runs on the same splits"
FAMILIES = "families of "  # before a kind whose classes count by family
FEWEST_CLASSES = 8  # with fewer test classes nothing is known of the interval's coverage
_SMALLEST_P = 1e-15


@dataclass(frozen=True)
class Interval:
    """A two-sided confidence interval, as fractions, and the sources of its width."""

    estimate: float
    low: float  # the ends, for all that the interval's `kind` names
    high: float
    class_error: float  # standard error from the choice of test classes; 0 for an interval of runs only
    training_error: float | None  # standard error from the repeats; `None`: nothing was repeated
    class_freedom: float  # degrees of freedom; 0 for a part that it does not have
    training_freedom: float
    confidence: float
    class_skewness: float = 0.0  # of the estimate over choices of test classes, see `skewed_quantiles`
    same_splits: bool = False  # runs share training classes: the interval is for these splits alone
    by_family: bool = False  # the draws are families of test classes, see `ClassScores.by_family`

    @property
    def kind(self) -> str:
        """The population of the interval: new test classes (or families), new runs, or both."""
        if self.class_freedom == 0:
            return TRAININGS
        found = CLASSES if self.training_error is None else SAME_SPLITS if self.same_splits else BOTH
        return FAMILIES + found if self.by_family else found

    @property
    def has_few_classes(self) -> bool:
        """True if so few test classes may make the interval too short."""
        return 0 < self.class_freedom < FEWEST_CLASSES - 1

    @property
    def excludes_zero(self) -> bool:
        """True if the two sides of a difference differ at this level.

        The sides are two methods if `training_error` is known; otherwise only their trained networks.
        """
        return self.low > 0 or self.high < 0

    @property
    def error(self) -> float:
        """The standard error of the estimate, of all parts."""
        return math.hypot(self.class_error, self.training_error or 0.0)

    @property
    def freedom(self) -> float:
        """Degrees of freedom of `error`, by Satterthwaite's rule; 0 without error."""
        return satterthwaite_freedom([part for part in (self._of_classes, self._of_training) if part[1]])

    def ends(self, *, of_difference: bool = False) -> tuple[float, float]:
        """Return the displayed ends, cut at 0 (differences: -1) and 1.

        Verdicts and detectable differences use the width before the cut.
        """
        return max(self.low, -1.0 if of_difference else 0.0), min(self.high, 1.0)

    def at(self, confidence: float) -> Interval:
        """Return the same interval at another level."""
        of_classes = self._of_classes if self.class_freedom else None
        of_training = self._of_training if self.training_error is not None else None
        found = interval(self.estimate, of_classes, of_training, confidence, self.class_skewness)
        return dataclasses.replace(found, same_splits=self.same_splits, by_family=self.by_family)

    def same_test_set(self) -> Interval | None:
        """Return the interval for new runs on this test set, or `None`.

        It covers training randomness alone, unknown without repeats. Compare published figures with it: they were
        measured on the same test classes.
        """
        if self.training_error is None:
            return None
        return interval(self.estimate, None, self._of_training, self.confidence)

    def p_value(self) -> float:
        """Return the two-sided p value of "no difference".

        It inverts the interval (the level 1 - p at which an end touches zero), so p < 0.05 exactly if the 95 % interval
        excludes zero. At least 1e-15.
        """
        from scipy.optimize import brentq

        if self.estimate == 0:
            return 1.0
        if self.error == 0:
            return _SMALLEST_P

        def excess(log_p: float) -> float:
            bound = self.at(1 - math.exp(log_p)) if log_p < 0 else None
            if bound is None:
                return -1.0
            return -bound.low if self.estimate > 0 else bound.high

        smallest = math.log(_SMALLEST_P)
        if excess(smallest) <= 0:
            return _SMALLEST_P
        largest = math.log1p(-1e-9)
        if excess(largest) >= 0:
            return 1.0
        return float(math.exp(brentq(excess, smallest, largest, xtol=1e-6)))

    def detectable_difference(self, power: float = 0.8) -> float:
        """Return the smallest true difference found significant with probability `power`.

        It is half of the interval, as if symmetric, plus Student's quantile of `power` in standard errors.
        """
        if self.error == 0:
            return 0.0
        symmetric = dataclasses.replace(self, class_skewness=0.0).at(self.confidence)
        return (symmetric.high - symmetric.low) / 2 + student_quantile(power, self.freedom) * self.error

    @property
    def _of_classes(self) -> Variance:
        return self.class_error**2, self.class_freedom

    @property
    def _of_training(self) -> Variance:
        return (self.training_error or 0.0) ** 2, self.training_freedom


def interval(
    estimate: float,
    of_classes: Variance | None,
    of_training: Variance | None,
    confidence: float = 0.95,
    class_skewness: float = 0.0,
) -> Interval:
    """Build an `Interval` from the variances of test classes and of training.

    The parts are joined by a mean of Cochran and Cox's rule and of Satterthwaite's, weighted by `cochran_share`. The
    first averages the parts' quantiles with the variances as weights; it is too wide where a part with two or three
    degrees of freedom meets an equally large one. The second takes Student's quantile of `freedom`; it is too narrow
    where such a part happens to look small. Their mean keeps simulated coverage between 92.8 and 97.0 %
    (`benchmarks.interval_coverage`). With one part the two are the same.

    Reference: Cochran and Cox, "Experimental Designs", 1957, chapter 4; Satterthwaite, "An approximate distribution of
    estimates of variance components", 1946.

    Args:
        of_classes: variance and degrees of freedom from the choice of test classes; `None`: of runs only.
        of_training: the same from training; `None`: nothing was repeated.
    """
    known = [part for part in (of_classes, of_training) if part]
    quantiles = [student_quantile(0.5 + confidence / 2, part_freedom) for _, part_freedom in known]
    sides = [(quantile, quantile) for quantile in quantiles]
    if of_classes:
        sides[0] = skewed_quantiles(of_classes[1], class_skewness, confidence)
    variances = [variance for variance, _ in known]
    conservative = joined_half_width(list(zip(variances, quantiles, strict=True)))
    joint_freedom = satterthwaite_freedom(known)
    joint = student_quantile(0.5 + confidence / 2, joint_freedom) if joint_freedom else 0.0
    share = cochran_share(of_training[1] if of_training else math.inf, confidence)
    given_back = (1 - share) * (conservative - joint * math.sqrt(sum(variances)))
    below, above = (
        joined_half_width([(variance, both[side]) for variance, both in zip(variances, sides, strict=True)])
        - given_back
        for side in (0, 1)
    )
    return Interval(
        estimate=estimate,
        low=estimate - below,
        high=estimate + above,
        class_error=math.sqrt(of_classes[0]) if of_classes else 0.0,
        training_error=math.sqrt(of_training[0]) if of_training else None,
        class_freedom=of_classes[1] if of_classes else 0,
        training_freedom=of_training[1] if of_training else 0,
        confidence=confidence,
        class_skewness=class_skewness,
    )


def interval_of_runs(values: np.ndarray) -> Interval | None:
    """Return a mean's 95 % interval for new runs; None for one run."""
    if len(values) < 2:
        return None
    of_training = float(np.var(values, ddof=1)) / len(values), len(values) - 1
    return interval(float(values.mean()), None, of_training)


def cochran_share(training_freedom: float, confidence: float) -> float:
    """Return the weight of Cochran and Cox's rule in `interval`.

    Up to 95 % it is 1/2, or 2/3 if training has at most two degrees of freedom. With 1/2, a single split of three runs
    had 6.0 % false alarms where runs differ far more than classes: two degrees look small too often. Above 95 % the
    other rule's weight shrinks as 1 - confidence. With 1/2, 8.4 % of tables of 12 equal methods in four folds had a
    star where the choice of classes adds a fifth of the spread of training (a one-off of 200,000 tables), now 5.6 %.
    """
    of_the_other = 1 / 3 if training_freedom <= 2 else 1 / 2
    return 1 - of_the_other * min(1.0, (1 - confidence) / 0.05)


def joined_half_width(parts: Sequence[tuple[float, float]]) -> float:
    """Combine independent errors (variance, quantile) as Cochran and Cox; see `interval`."""
    total = sum(variance for variance, _ in parts)
    return sum(variance * quantile for variance, quantile in parts) / math.sqrt(total) if total > 0 else 0.0


def satterthwaite_freedom(parts: Sequence[Variance]) -> float:
    """Return Satterthwaite's degrees of freedom of independent parts; 0 without error."""
    squares = sum(variance**2 / freedom for variance, freedom in parts)
    return sum(variance for variance, _ in parts) ** 2 / squares if squares else 0.0


def student_quantile(probability: float, freedom: float) -> float:
    """Return Student's quantile: `x` with P(T <= x) = `probability`, for `freedom` > 0."""
    from scipy.special import stdtrit  # which `scipy.stats.t.ppf` calls, after checks that take longer

    return float(stdtrit(freedom, probability))


def skewed_quantiles(freedom: float, skewness: float, confidence: float) -> tuple[float, float]:
    """Return a skewed interval's reach below and above, in standard errors.

    Where few classes succeed by far more than the others, a sample without such classes has a small mean and a small
    spread: Student's interval misses the truth above it. For a skewness L of the estimate, the Cornish-Fisher expansion
    of a studentised mean moves both ends, in standard errors and for Student's quantile q, by

        L (2 q^2 + 1) / 6.

    The skewness of few classes is itself found too small and is uncertain. So the side of the tail gets
    1 + 24 / classes times this shift, and the other side gives up a third of it, but never more than half of q. These
    numbers were chosen by simulation (`benchmarks.interval_coverage`). With fewer than `FEWEST_CLASSES` the expansion
    does not hold: its shift would reach to a hundred standard errors. There the side of the tail gets at most 2 q.

    Reference: Johnson, "Modified t tests and confidence intervals for asymmetrical populations", 1978; Hall, "The
    Bootstrap and Edgeworth Expansion", 1992, 2.4.
    """
    quantile = student_quantile(0.5 + confidence / 2, freedom)
    towards_tail, other = (float(end) for end in shifted_quantiles(quantile, skewness, freedom + 1))
    return (other, towards_tail) if skewness >= 0 else (towards_tail, other)


def shifted_quantiles(
    quantile: float | np.ndarray, skewness: float | np.ndarray, num_classes: float | np.ndarray
) -> tuple[float | np.ndarray, float | np.ndarray]:
    """Apply the formula of `skewed_quantiles`: return tail side, then other side."""
    shift = np.abs(skewness) * (2 * quantile**2 + 1) / 6
    tail = quantile + shift * (1 + 24 / num_classes)
    tail = np.where(np.less(num_classes, FEWEST_CLASSES), np.minimum(tail, 2 * quantile), tail)
    return tail, np.maximum(quantile - shift / 3, quantile / 2)
