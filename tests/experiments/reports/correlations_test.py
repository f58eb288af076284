import numpy as np
import pytest
import scipy.stats

from common.errors import InvalidInput
from experiments.reports.correlations import spearman_interval, spearman_rows


def test_the_coefficient_equals_scipys():
    rng = np.random.default_rng(0)
    first = rng.integers(0, 6, 30)  # with ties
    second = first + rng.normal(size=30) * 4
    assert spearman_rows(first, second) == pytest.approx(scipy.stats.spearmanr(first, second).statistic)
    assert spearman_rows(first, np.exp(first)) == pytest.approx(1)
    assert spearman_rows(first, -first) == pytest.approx(-1)
    assert np.isnan(spearman_rows(first, np.ones(30)))


def test_whole_methods_are_drawn():
    rng = np.random.default_rng(0)
    methods = np.repeat(np.arange(12), 4)
    of_method = rng.normal(size=(2, 12))
    first, second = of_method[:, methods] + 0.05 * rng.normal(size=(2, 48))
    by_method = spearman_interval(first, second, methods)
    by_run = spearman_interval(first, second, np.arange(48))
    assert by_method.estimate == by_run.estimate == pytest.approx(spearman_rows(first, second))
    assert (by_method.num_runs, by_method.num_groups, by_run.num_groups) == (48, 12, 48)
    assert by_method.high - by_method.low > 1.5 * (by_run.high - by_run.low)
    assert by_method.low < by_method.estimate < by_method.high
    assert spearman_interval(first, second, methods) == by_method
    assert spearman_interval(first, second, methods, seed=1) != by_method


def test_the_interval_of_a_strong_correlation_excludes_zero_and_of_none_does_not():
    rng = np.random.default_rng(1)
    methods = np.repeat(np.arange(10), 3)
    values = rng.normal(size=30)
    assert spearman_interval(values, -values + 0.1 * rng.normal(size=30), methods).excludes_zero
    covered = [
        not spearman_interval(*rng.normal(size=(2, 30)), np.arange(30), num_resamples=200).excludes_zero
        for _ in range(40)
    ]
    assert np.mean(covered) >= 0.8


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (([1, 2, 3], [1, 2, 3], [0, 0, 1]), "2 method"),
        (([1, 2, 3], [1, 2], [0, 1, 2]), r"\[3\], \[2\] and \[3\]"),
        (([1, 2, 3], [5, 5, 5], [0, 1, 2]), "same for all runs"),
    ],
)
def test_bad_input_is_named(arguments, message):
    with pytest.raises(InvalidInput, match=message):
        spearman_interval(*arguments)
