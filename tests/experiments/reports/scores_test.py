import dataclasses
import itertools

import numpy as np
import pytest

from common.errors import InvalidInput
from experiments.reports import collections, single_model_members
from experiments.reports.scores import Scores
from experiments.reports.statistics import ClassScores, class_clustered_interval
from experiments.rows.rows import Row

LABELS, COUNTS = np.arange(3), np.full(3, 4)
FAMILIES = np.array([5, 8, 5, 0, 2, 9, 3, 0, 7, 7, 4, 5])


def in_families(value, families, label="method"):
    """Rows of three folds on twelve classes, with one query more in each class than in the one before."""
    generator, counts, rows = np.random.default_rng(value), np.arange(1, 13), []
    for fold in range(3):
        sums = dict.fromkeys(("MAP@R", "P@1"), generator.random(12) * counts)
        row = {"kind": "training", "label": label, "fold": fold, "repeat": 0}
        rows.append(Row(row, sums, np.arange(12), counts, families))
    return rows


def scored(value, **place):
    """A row of three classes with one mean."""
    sums = dict.fromkeys(("MAP@R", "P@1"), value * COUNTS)
    return Row({"test": {"MAP@R": value, "P@1": value}, **place}, sums, LABELS, COUNTS)


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
    assert found.bounds == single.estimate("MAP@R")
    assert joined.over_collections("MAP@R").std == pytest.approx(np.std(joined.class_scores("MAP@R").means))
    # The formula of `statistics`: the 81 values know no more than the spread of three repeats in four folds.
    spreads = [np.var([figures[fold, repeat] for repeat in range(3)], ddof=1) for fold in range(4)]
    assert found.std == pytest.approx(np.sqrt(sum(spreads) * 2 / 3) / 4)


def test_one_repeat_has_no_spread_over_collections():
    single, joined = scores_of(np.random.default_rng(1), 4, 1)
    assert single.over_collections("P@1").mean == pytest.approx(np.mean([row["test"]["P@1"] for row in single.rows]))
    assert single.over_collections("P@1").std is joined.over_collections("P@1").std is None


def test_classes_of_a_family_count_as_one_class():
    rows = in_families(0, FAMILIES)
    sums, counts = np.zeros((3, 8)), np.zeros(8)
    for place, family in enumerate(sorted(set(FAMILIES))):
        for of_class in np.flatnonzero(family == FAMILIES):
            counts[place] += rows[0].counts[of_class]
            sums[:, place] += [row.sums["P@1"][of_class] for row in rows]
    expected = class_clustered_interval(ClassScores(sums, counts), members=single_model_members(3, 1))
    found = Scores(rows).estimate("P@1")
    assert (found.low, found.high) == pytest.approx((expected.low, expected.high))
    assert found.kind == found.at(0.9).kind == "families of classes and runs"
    alone = Scores(in_families(0, None)).estimate("P@1")
    assert (alone.estimate, alone.kind) == (pytest.approx(found.estimate), "classes and runs")
    assert alone.class_freedom > found.class_freedom


def test_families_that_one_side_knows_count_for_the_difference():
    known, unknown = Scores(in_families(0, FAMILIES)), Scores(in_families(1, None))
    expected = known.difference(Scores(in_families(1, FAMILIES)), "MAP@R")
    assert known.difference(unknown, "MAP@R") == expected
    assert unknown.difference(known, "MAP@R").class_error == pytest.approx(expected.class_error)


def test_fewer_than_eight_families_are_no_sample_of_families():
    few = np.where(FAMILIES == 9, 8, FAMILIES)
    found = Scores(in_families(0, few)).estimate("MAP@R")
    assert found == Scores(in_families(0, None)).estimate("MAP@R")


def test_methods_that_were_tested_on_other_queries_are_not_subtracted():
    row = scored(0.5, kind="training", label="method", fold=0, repeat=0)
    more = dataclasses.replace(row, counts=2 * COUNTS)
    with pytest.raises(InvalidInput, match="cannot be subtracted"):
        Scores([row]).difference(Scores([more]), "MAP@R")
