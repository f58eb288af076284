import itertools

import numpy as np
import pytest

from common.errors import InvalidInput
from common.retrieval import match_sequences


def objective(matches, frames, others, disorder, repetition, gap, outlier):
    """Equation 7.1 for one map."""
    total = sum(
        outlier if match == 0 else ((frame - others[match - 1]) ** 2).sum() for frame, match in zip(frames, matches)
    )
    for before, after in zip(matches, matches[1:]):
        total += disorder * (before > after) + repetition * (before == after)
        total += gap * (after - before) if before + 1 < after else 0
    return total


@pytest.mark.parametrize("seed", range(8))
def test_the_match_is_the_best_of_all_maps(seed):
    rng = np.random.default_rng(seed)
    frames, others = rng.normal(size=(5, 3)), rng.normal(size=(3, 3))
    weights = dict(zip(("disorder", "repetition", "gap", "outlier"), rng.uniform(0, 4, size=4)))
    maps = list(itertools.product(range(4), repeat=5))
    costs = [objective(matches, frames, others, **weights) for matches in maps]
    found = match_sequences(frames, others, **weights)
    assert found.cost == pytest.approx(min(costs), rel=1e-12)
    np.testing.assert_array_equal(found.matches, maps[int(np.argmin(costs))])


def test_infinite_weights_forbid():
    frames, others = np.array([[2.0], [1.0], [0.0]]), np.array([[0.0], [1.0], [2.0]])
    found = match_sequences(frames, others, disorder=np.inf, repetition=np.inf, gap=np.inf)
    np.testing.assert_array_equal(found.matches, [1, 2, 3])
    assert found.cost == 8


@pytest.mark.parametrize(
    ("others", "gap", "received"),
    [(np.zeros((2, 2)), 0.0, "dimension 2"), (np.full((2, 1), np.nan), 0.0, "NaN"), (np.zeros((2, 1)), -1.0, "-1")],
)
def test_refusals(others, gap, received):
    with pytest.raises(InvalidInput, match=received):
        match_sequences(np.zeros((3, 1)), others, disorder=0, repetition=0, gap=gap)
