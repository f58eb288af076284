"""Metrics of a random sample of the queries, with intervals for all queries."""

from __future__ import annotations

import math

import numpy as np

from common.errors import invalid

FEWEST = 100  # sampled queries: with fewer the normal distribution of a mean cannot be relied on
_QUANTILE = 1.959963984540054  # of the normal distribution, two-sided


def sampled_rows(candidates: np.ndarray, size: int, seed: int) -> np.ndarray:
    """Draw a simple random sample without replacement: `[min(size, candidates)]`.

    The rows increase.

    Args:
        candidates: query rows that have something to find `[candidates]`.
        size: how many, at least `FEWEST`; all of them if there are no more.
        seed: of the draw; the same seed, candidates and size give the same rows.

    Raises:
        InvalidInput: too small a size.
    """
    if size < FEWEST:
        raise invalid("sample_queries", received=size, expected=f"at least {FEWEST}")
    if size >= len(candidates):
        return candidates
    return np.sort(np.random.default_rng(seed).choice(candidates, size, replace=False))


def interval_of_all(values: np.ndarray, population: int) -> tuple[float, float]:
    """Return a 95 % confidence interval for the population's mean.

    The sample is drawn without replacement. Agresti and Coull's interval, for any values in [0, 1]. About two zeros and
    two ones are added to the sample, so that a sample of equal values does not imply certainty. Then follows the normal
    approximation, whose variance has the factor (population - sample) / (population - 1) of a finite population. If
    everything was evaluated, the interval is the mean itself.

    Reference: Agresti and Coull, The American Statistician 52, 1998; Cochran, Sampling Techniques, 1977, chapter 2.

    Args:
        values: of the sampled queries `[sample]`, fractions.
        population: queries that might have been drawn, at least `sample`.

    Returns:
        Lowest and highest value, within [0, 1].

    Examples:
        >>> low, high = interval_of_all(np.repeat([0.0, 1.0], 500), 1_000_000)
        >>> round(low, 3), round(high, 3)
        (0.469, 0.531)
    """
    sample = len(values)
    if sample >= population:
        return float(values.mean()), float(values.mean())
    added = _QUANTILE**2  # half of them zeros, half ones
    size = sample + added
    mean = (values.sum() + added / 2) / size
    variance = (np.square(values - mean).sum() + added / 2 * (mean**2 + (1.0 - mean) ** 2)) / size
    missing = (population - sample) / (population - 1)
    half = _QUANTILE * math.sqrt(variance * missing / size)
    return max(0.0, float(mean - half)), min(1.0, float(mean + half))
