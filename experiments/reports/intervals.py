"""A confidence interval that knows where its width comes from: the choice of test classes, and training."""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import NormalDist

import numpy as np

Variance = tuple[float, int]  # (variance of an estimate, degrees of freedom that it was estimated with)


@dataclass(frozen=True)
class Interval:
    """A two-sided confidence interval and where its width comes from. Units are those of the scores (fractions).

    Args:
        estimate: the figure itself.
        low, high: the ends, for new test classes and new trainings alike.
        class_error: standard error from the choice of test classes.
        training_error: standard error from the repeats; `None` when nothing was repeated, and then the interval is for
            these trained networks only.
        class_freedom, training_freedom: degrees of freedom of the two.
        confidence: the level, e.g. 0.95.
    """

    estimate: float
    low: float
    high: float
    class_error: float
    training_error: float | None
    class_freedom: int
    training_freedom: int
    confidence: float

    @property
    def excludes_zero(self) -> bool:
        """For an interval of a difference: whether the two differ at this level.

        Two methods when `training_error` is known; otherwise only these trained networks of theirs.
        """
        return self.low > 0 or self.high < 0

    def ends(self, *, of_difference: bool = False) -> tuple[float, float]:
        """The interval as it is shown: cut at 0 and 1 (a difference: at -1 and 1), for no figure lies beyond.

        Its width, from which verdicts and detectable differences come, is that of the interval before it is cut.

        Args:
            of_difference: whether it is of the difference of two figures.
        """
        return max(self.low, -1.0 if of_difference else 0.0), min(self.high, 1.0)

    def same_test_set(self) -> Interval | None:
        """The interval for new trainings on this very test set: training randomness alone, `None` when not known.

        This is the one to hold a published figure against, because it was measured on the same test classes.
        """
        if self.training_error is None:
            return None
        half = half_width([(self.training_error**2, self.training_freedom)], self.confidence)
        return dataclasses.replace(self, low=self.estimate - half, high=self.estimate + half, class_error=0.0)

    def detectable_difference(self, power: float = 0.8) -> float:
        """For an interval of a difference: the smallest true difference found significant with this probability."""
        quantile = NormalDist().inv_cdf(0.5 + self.confidence / 2)
        return (self.high - self.low) / 2 * (1 + NormalDist().inv_cdf(power) / quantile)


def interval(estimate: float, of_classes: Variance, of_training: Variance | None, confidence: float) -> Interval:
    """Builds the `Interval` around `estimate` from the variance of the test classes and that of training, if known."""
    half = half_width([of_classes, *([of_training] if of_training else [])], confidence)
    return Interval(
        estimate=estimate,
        low=estimate - half,
        high=estimate + half,
        class_error=math.sqrt(of_classes[0]),
        training_error=math.sqrt(of_training[0]) if of_training else None,
        class_freedom=of_classes[1],
        training_freedom=of_training[1] if of_training else 0,
        confidence=confidence,
    )


def half_width(components: Sequence[Variance], confidence: float) -> float:
    """Half the width of the interval of an estimate whose error is a sum of independent parts.

    half^2 = sum_i t_{nu_i}^2 v_i: each part's own half-width, added in quadrature. Right when one part dominates, a
    little wide in between; Satterthwaite's pooled degrees of freedom come out too narrow when a part with three degrees
    of freedom happens to look small.

    Reference: Zou and Donner, "Construction of confidence limits about effect measures", 2008 (method of variance
    estimates recovery).

    Args:
        components: (variance, degrees of freedom) of each part.
        confidence: in (0, 1).
    """
    quantile = 0.5 + confidence / 2
    return math.sqrt(sum(student_quantile(quantile, freedom) ** 2 * variance for variance, freedom in components))


@functools.lru_cache(maxsize=1024)
def student_quantile(probability: float, freedom: float) -> float:
    """The upper quantile of Student's t: `t` with P(T <= t) = `probability`, to about 1e-6 of its value.

    With T = sqrt(freedom) tan(phi) the density over the angle is proportional to cos(phi)^(freedom - 1), which is
    integrated on a grid.

    Args:
        probability: in [0.5, 1).
        freedom: degrees of freedom, >= 1.
    """
    if freedom > 1e5:
        return NormalDist().inv_cdf(probability)
    angles = np.linspace(0, math.pi / 2, 200_001)
    density = np.cos(angles) ** (freedom - 1)
    cumulative = np.concatenate([[0.0], np.cumsum((density[1:] + density[:-1]) / 2)])
    angle = np.interp(2 * probability - 1, cumulative / cumulative[-1], angles)
    return float(math.sqrt(freedom) * math.tan(angle))
