import itertools

import numpy as np
import pytest

from experiments.reports import collections
from experiments.rows.rows import ScoredRow
from experiments.rows.scores import Scores

LABELS, COUNTS = np.arange(3), np.full(3, 4)


def scored(value, **place):
    """A row of three classes with one mean."""
    sums = dict.fromkeys(("MAP@R", "P@1"), value * COUNTS)
    return ScoredRow({"test": {"MAP@R": value, "P@1": value}, **place}, sums, LABELS, COUNTS)


def scores_of(generator, folds, repeats):
    places = itertools.product(range(folds), range(repeats))
    singles = [scored(generator.random(), kind="training", fold=fold, repeat=repeat) for fold, repeat in places]
    joined = [
        scored(generator.random(), kind="collection", members=[[*member] for member in enumerate(of)])
        for of in collections(folds, repeats)
    ]
    return Scores(singles[::-1]), Scores(joined)


def test_mean_and_spread_over_collections_are_those_of_a_plain_loop():
    single, joined = scores_of(np.random.default_rng(0), 4, 3)
    figures = {place: row["test"]["MAP@R"] for place, row in zip(single.places, single.rows)}
    found = single.over_collections("MAP@R")
    averages = [np.mean([figures[run] for run in enumerate(of)]) for of in itertools.product(range(3), repeat=4)]
    assert (found.mean, found.std) == pytest.approx((np.mean(averages), np.std(averages)))
    assert found.interval == single.estimate("MAP@R")
    assert joined.over_collections("MAP@R").std == pytest.approx(np.std(joined.class_scores("MAP@R").means))
    # The formula of `statistics`: the 81 values know no more than the spread of three repeats in four folds.
    spreads = [np.var([figures[fold, repeat] for repeat in range(3)], ddof=1) for fold in range(4)]
    assert found.std == pytest.approx(np.sqrt(sum(spreads) * 2 / 3) / 4)


def test_one_repeat_has_no_spread_over_collections():
    single, joined = scores_of(np.random.default_rng(1), 4, 1)
    assert single.over_collections("P@1").mean == pytest.approx(np.mean([row["test"]["P@1"] for row in single.rows]))
    assert single.over_collections("P@1").std is joined.over_collections("P@1").std is None
