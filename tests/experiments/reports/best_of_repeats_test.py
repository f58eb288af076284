import numpy as np
import pytest

from experiments.reports.best_of_repeats import (
    best_estimate,
    best_repeat,
    mean_estimate,
    optimism_estimate,
    spread_of_best,
)
from experiments.reports.statistics import ClassScores
from tests.experiments.reports.query_scores import by_class

LABELS = np.repeat(np.arange(30), 4)


def scores_of(means, seed=0, shared=0.0):
    """Scores of 120 queries in 30 classes, repeat by repeat, with exactly these means (and what queries share)."""
    noise = np.random.default_rng(seed).normal(0, 0.2, (len(means), len(LABELS)))
    scores = noise - noise.mean(axis=1, keepdims=True) + np.array(means)[:, None]
    return by_class(scores + shared, LABELS)


def test_the_spread_of_the_best_is_that_of_normal_order_statistics():
    # Closed forms: var(max of 2) = 1 - 1/pi; var(max of 3) = 1 + sqrt(3)/(2 pi) - 9/(4 pi).
    assert spread_of_best(1) == pytest.approx(1, abs=1e-5)
    assert spread_of_best(2) == pytest.approx(np.sqrt(1 - 1 / np.pi), abs=1e-5)
    assert spread_of_best(3) == pytest.approx(np.sqrt(1 + np.sqrt(3) / (2 * np.pi) - 9 / (4 * np.pi)), abs=1e-5)


def test_the_best_repeat_is_the_best_on_average():
    assert best_repeat(ClassScores(np.array([[1.0, 0.0, 0.0], [0.5, 0.5, 0.4]]), np.ones(3))) == 1


def test_best_and_mean_and_their_training_errors():
    scores = scores_of([0.60, 0.66, 0.63])
    assert best_repeat(scores) == 1
    best, mean = best_estimate(scores, 1, decides=True), mean_estimate(scores)
    assert (best.mean, mean.mean) == (pytest.approx(0.66), pytest.approx(0.63))
    assert mean.std == pytest.approx(0.03)
    assert best.std is None
    assert best.bounds.training_error == pytest.approx(0.03 * spread_of_best(3))
    assert best_estimate(scores, 1, decides=False).bounds.training_error == pytest.approx(0.03)
    assert mean.bounds.training_error == pytest.approx(0.03 / np.sqrt(3), rel=0.1)  # resampled
    single = mean_estimate(scores.rows([0]))
    assert single.std is None
    assert best_estimate(scores.rows([0]), 0, decides=True).bounds.training_error is None
    assert single.bounds.training_error is None


def test_optimism_is_the_best_minus_the_unbiased_mean_on_the_same_queries():
    shared = np.random.default_rng(1).normal(0, 5, len(LABELS))  # what makes a query hard cancels
    biased, unbiased = scores_of([0.60, 0.66, 0.63], 0, shared), scores_of([0.55, 0.56, 0.57], 2, shared)
    optimism = optimism_estimate(biased, unbiased, 1, decides=True)
    assert optimism.mean == pytest.approx(0.10)
    assert optimism.bounds.class_error < 0.1
    expected = np.hypot(0.03 * spread_of_best(3), 0.01 / np.sqrt(3))
    assert optimism.bounds.training_error == pytest.approx(expected)
    assert optimism.bounds.training_freedom == 2
    assert optimism_estimate(biased.rows([0]), unbiased.rows([0]), 0, decides=True).bounds.training_error is None
