import numpy as np
import pytest

from common.errors import InvalidInput
from experiments.reports.class_scores import ClassScores
from tests.experiments.reports.query_scores import by_class

LABELS = np.array([7, 3, 7, 7, 900, 3])


def test_sums_and_counts_are_those_of_a_plain_loop():
    scores = np.random.default_rng(0).random((2, 6))
    found = by_class(scores, LABELS)
    for column, label in enumerate([3, 7, 900]):
        queries = [index for index in range(6) if LABELS[index] == label]
        assert found.counts[column] == len(queries)
        for model in range(2):
            assert found.sums[model, column] == pytest.approx(sum(scores[model, index] for index in queries))
    assert found.means == pytest.approx(scores.mean(axis=1))
    assert (found.num_classes, found.sums.dtype) == (3, np.float64)


def test_rows_averages_and_differences():
    scores = np.random.default_rng(1).random((3, 6))
    found = by_class(scores, LABELS)
    assert found.rows([2]).means == pytest.approx(scores[2:].mean(axis=1))
    assert found.average().means == pytest.approx([scores.mean()])
    assert found.average(np.array([0.5, 0.5, 0.0])).means == pytest.approx([scores[:2].mean()])
    assert found.minus(found.average()).means == pytest.approx(scores.mean(axis=1) - scores.mean())
    stacked = ClassScores.stacked([found.rows([1]), found.rows([0, 2])])
    assert stacked.means == pytest.approx(scores[[1, 0, 2]].mean(axis=1))


def test_invalid_scores_are_refused():
    with pytest.raises(InvalidInput, match="NaN or infinity.*Leave excluded queries out"):
        ClassScores(np.full((2, 2), np.nan), np.ones(2))
    with pytest.raises(InvalidInput, match="received 1 class, expected at least two"):
        ClassScores(np.zeros((2, 1)), np.ones(1))
    with pytest.raises(ValueError, match=r"sums \(2, 3\) and counts \(2,\)"):
        ClassScores(np.zeros((2, 3)), np.ones(2))
    with pytest.raises(InvalidInput, match="a class without queries"):
        ClassScores(np.zeros((2, 3)), np.array([1, 0, 2]))
    ours, other = ClassScores(np.zeros((2, 3)), np.ones(3)), ClassScores(np.zeros((2, 3)), np.array([1, 1, 2]))
    with pytest.raises(ValueError, match="expected the same models and queries"):
        ours.minus(other)
    with pytest.raises(ValueError, match="expected the same models and queries"):
        ClassScores(np.zeros((3, 3)), np.ones(3)).minus(ours)
