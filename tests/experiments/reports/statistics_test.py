import numpy as np
import pytest

from common.errors import InvalidInput
from experiments.reports.statistics import (
    ClassScores,
    class_clustered_interval,
    collections,
    paired_difference,
    single_model_members,
)
from tests.experiments.reports.query_scores import by_class

FOLD_SPREAD = 0.015


def study(generator, num_repeats, shift=0.0, test_set=None, num_classes=60):
    """Scores `[models, queries]` of four folds with effects of class, query, model and model x class; the test set."""
    if test_set is None:
        labels = np.repeat(np.arange(num_classes), generator.integers(2, 9, num_classes))
        hardness = generator.gamma(2.0, 0.1, num_classes)[labels] + generator.normal(0, 0.1, len(labels))
        test_set = labels, hardness
    labels, hardness = test_set
    scores = []
    for fold_effect in generator.normal(0, FOLD_SPREAD, 4):
        for _ in range(num_repeats):
            of_class = generator.normal(0, 0.03, num_classes)[labels]
            of_model = fold_effect + generator.normal(0, 0.02)
            scores.append(0.5 + shift + hardness + of_model + of_class + generator.normal(0, 0.1, len(labels)))
    return np.stack(scores), test_set


TRUTH = 0.5 + 0.2  # a gamma(2, 0.1) class effect has mean 0.2


def each_by_class(labels, *scores):
    return [by_class(of_method, labels) for of_method in scores]


def collection_members(num_folds, num_repeats):
    return [list(enumerate(collection)) for collection in collections(num_folds, num_repeats)]


def test_collections_list_every_choice_of_a_repeat_a_fold():
    assert collections(2, 2) == [(0, 0), (0, 1), (1, 0), (1, 1)]
    assert len(collections(4, 3)) == 81
    assert single_model_members(2, 2) == [[(0, 0)], [(0, 1)], [(1, 0)], [(1, 1)]]
    assert single_model_members(3, 1) == [[(0, 0)], [(1, 0)], [(2, 0)]]


def test_averaged_scores_have_the_interval_of_their_models_on_the_same_splits():
    scores, (labels, _) = study(np.random.default_rng(1), 2)
    rows = [[2 * fold + repeat for fold, repeat in enumerate(repeats)] for repeats in collections(4, 2)]
    single, joined = each_by_class(labels, scores, scores[np.array(rows)].mean(axis=1))
    both = class_clustered_interval(joined, members=collection_members(4, 2))
    assert both.estimate == pytest.approx(class_clustered_interval(single).estimate)
    within = scores.mean(axis=1).reshape(4, 2).var(axis=1, ddof=1)  # folds cannot be told apart: each is in every row
    assert both.training_error == pytest.approx(np.sqrt(within.sum() / 2) / 4)
    assert (both.training_freedom, both.kind) == (4, "classes and runs on the same splits")


def test_errors_equal_their_closed_forms():
    generator = np.random.default_rng(2)
    labels = np.repeat(np.arange(30), 5)
    scores = generator.random((12, 150)) + generator.normal(size=30)[labels]
    found = class_clustered_interval(by_class(scores, labels), members=single_model_members(4, 3))
    of_classes = scores.reshape(4, 3, 30, 5).mean(axis=3)  # [folds, repeats, classes]
    of_models = of_classes.mean(axis=2)
    assert found.training_error == pytest.approx(of_models.mean(axis=1).std(ddof=1) / 2)
    both = (of_classes - of_models[..., None]).mean(axis=1)
    interaction = ((both - both.mean(axis=0)) ** 2).sum() / 3 / 4 / (30 * 29)
    expected = of_classes.mean(axis=(0, 1)).var(ddof=1) / 30 - interaction
    assert found.class_error == pytest.approx(np.sqrt(expected))
    assert (found.class_freedom, found.training_freedom) == (pytest.approx(29), 3)
    assert found.kind == "classes and runs"


def test_few_classes_have_the_unbiased_variance():
    labels, values = np.repeat(np.arange(6), 3), np.array([0.1, 0.9, 0.4, 0.7, 0.2, 0.6])
    found = class_clustered_interval(by_class(values[labels][None], labels))
    assert found.class_error == pytest.approx(values.std(ddof=1) / np.sqrt(6))


def test_fold_means_are_the_observations_by_hand():
    # Folds with the means .2, .4 and .9, from two, one and three runs; two classes without a spread of their own.
    values = np.array([0.1, 0.3, 0.4, 0.9, 0.8, 1.0])
    members = [[place] for place in [(0, 0), (0, 1), (1, 0), (2, 0), (2, 1), (2, 2)]]
    found = class_clustered_interval(ClassScores(np.repeat(values[:, None], 2, axis=1), np.ones(2)), members=members)
    assert found.estimate == pytest.approx(0.5)
    assert found.training_error**2 == pytest.approx((0.09 + 0.01 + 0.16) / 2 / 3)
    assert found.training_freedom == 2
    order = [4, 0, 2, 5, 1, 3]
    moved = ClassScores(np.repeat(values[order, None], 2, axis=1), np.ones(2))
    assert class_clustered_interval(moved, members=[members[row] for row in order]).training_error == pytest.approx(
        found.training_error
    )


def test_one_split_is_for_itself():
    scores = ClassScores(np.repeat([[0.1], [0.3], [0.8]], 2, axis=1), np.ones(2))
    found = class_clustered_interval(scores, members=single_model_members(1, 3))
    assert found.training_error**2 == pytest.approx((0.09 + 0.01 + 0.16) / 2 / 3)
    assert found.kind == found.at(0.9).kind == "classes and runs on the same splits"


def test_folds_are_the_spread_of_single_runs():
    scores, (labels, _) = study(np.random.default_rng(3), 1)
    found = class_clustered_interval(by_class(scores, labels), members=single_model_members(4, 1))
    assert found.training_error == pytest.approx(scores.mean(axis=1).std(ddof=1) / 2)
    assert found.training_freedom == 3
    joined = class_clustered_interval(by_class(scores[:1], labels), members=collection_members(4, 1))
    assert joined.training_error is None
    assert joined.same_test_set() is None


def test_result_ignores_label_names_and_query_order():
    scores, (labels, _) = study(np.random.default_rng(4), 2)
    members = single_model_members(4, 2)
    found = class_clustered_interval(by_class(scores, labels), members=members)
    assert found == class_clustered_interval(by_class(scores, labels), members=members)
    order = np.random.default_rng(5).permutation(len(labels))
    moved = class_clustered_interval(by_class(scores[:, order], labels[order] + 2**40), members=members)
    assert moved.high == pytest.approx(found.high, abs=1e-12)


def test_invalid_input_is_refused():
    scores = by_class(np.zeros((2, 4)), np.array([0, 0, 1, 1]))
    with pytest.raises(ValueError, match="received 3 rows, expected 2"):
        class_clustered_interval(scores, members=single_model_members(3, 1))
    with pytest.raises(ValueError, match="expected the same models and queries"):
        paired_difference(scores, scores.rows([0]))


def test_a_method_does_not_differ_from_itself():
    scores, (labels, _) = study(np.random.default_rng(6), 2)
    found = paired_difference(*each_by_class(labels, scores, scores), members=single_model_members(4, 2))
    assert (found.estimate, found.low, found.high, found.excludes_zero) == (0, 0, 0, False)


def test_interval_covers_the_truth():
    generator = np.random.default_rng(7)
    members = single_model_members(4, 2)
    covered = same_set = naive = 0
    for _ in range(1000):
        scores, (labels, hardness) = study(generator, 2)
        found = class_clustered_interval(by_class(scores, labels), members=members)
        covered += found.low <= TRUTH <= found.high
        repeated = found.same_test_set()
        same_set += repeated.low <= 0.5 + hardness.mean() <= repeated.high
        by_query = class_clustered_interval(by_class(scores, np.arange(len(labels))))
        naive += by_query.low <= TRUTH <= by_query.high
    assert 930 <= covered <= 970
    assert 930 <= same_set <= 970
    assert naive < 850  # queries are not independent: this is what the clusters are for


@pytest.mark.parametrize("num_repeats", [1, 3])
def test_identical_methods_rarely_differ_and_different_ones_usually_do(num_repeats):
    generator = np.random.default_rng(9)
    members = single_model_members(4, num_repeats)
    false_alarms, detectable = 0, []
    for _ in range(1000):
        first, test_set = study(generator, num_repeats)
        second, _ = study(generator, num_repeats, test_set=test_set)
        found = paired_difference(*each_by_class(test_set[0], first, second), members=members)
        false_alarms += found.excludes_zero
        detectable.append(found.detectable_difference())
    assert false_alarms <= 65  # 5 % and twice the error of a thousand
    typical = np.sqrt(np.mean(np.square(detectable)))  # of the mean variance, which is what pooling estimates
    found_differences = 0
    for _ in range(300):
        first, test_set = study(generator, num_repeats, shift=typical)
        second, _ = study(generator, num_repeats, test_set=test_set)
        found_differences += paired_difference(*each_by_class(test_set[0], first, second), members=members).low > 0
    assert found_differences >= 0.7 * 300


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
