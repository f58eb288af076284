import numpy as np
import pytest
from scipy.stats import binom
from sklearn.metrics import precision_recall_curve

from common.errors import InvalidInput
from photo_search.index import (
    EmbeddingIndex,
    calibrate_rejection,
    calibrate_threshold,
    precision_interval,
    search,
)
from photo_search.index.thresholds import groups_of_photos


@pytest.mark.parametrize("target", [0.5, 0.8, 0.95, 1.0])
def test_the_lowest_threshold_of_that_precision(target):
    rng = np.random.default_rng(0)
    similarities = np.round(rng.uniform(size=300), 2)  # with ties
    same = rng.uniform(size=300) < similarities**2
    same[similarities > 0.98] = True
    found = calibrate_threshold(similarities, same, target)
    precisions, _, thresholds = precision_recall_curve(same, similarities)
    assert found.threshold == thresholds[precisions[:-1] >= target].min()
    accepted = similarities >= found.threshold
    assert found.num_accepted == accepted.sum()
    assert found.precision == same[accepted].mean() >= target
    assert found.recall == pytest.approx((same & accepted).sum() / same.sum())
    assert found.low < found.precision <= found.high
    assert found.num_pairs == 300


def test_the_lower_end_may_be_what_reaches_the_target():
    similarities = np.linspace(0, 1, 200)
    same = similarities > 0.5
    estimate = calibrate_threshold(similarities, same, 0.9)
    careful = calibrate_threshold(similarities, same, 0.9, criterion="lower")
    assert careful.threshold > estimate.threshold
    assert careful.low >= 0.9 > estimate.low


def test_the_interval_is_where_the_binomial_tails_are():
    for correct, accepted in ((0, 5), (3, 10), (10, 10), (57, 60)):
        low, high = precision_interval(correct, accepted, 0.9)
        assert correct == 0 or binom.sf(correct - 1, accepted, low) == pytest.approx(0.05)
        assert correct == accepted or binom.cdf(correct, accepted, high) == pytest.approx(0.05)
    assert float(precision_interval(0, 5)[0]) == 0
    assert float(precision_interval(5, 5)[1]) == 1


@pytest.mark.parametrize(
    ("arguments", "phrase"),
    [
        (([0.9, 0.8], [False, True], 0.9), "target_precision.*0.9.*at most 0.5000, the best precision.*0.8000.*Lower"),
        (([0.9], [True], 0.9, "lower"), "the best lower end of its 95 % interval of these 1 pairs"),
        (([], [], 0.9), "pairs.*at least one pair"),
        (([0.9], [True, False], 0.9), "pairs.*shapes"),
        (([0.9], [2], 0.9), "same.*true or false"),
        (([np.nan], [True], 0.9), "similarities.*NaN"),
        (([0.9], [True], 0.0), "target_precision.*\\(0, 1\\]"),
        (([0.9], [True], 0.9, "mean"), "criterion.*estimate, lower"),
    ],
)
def test_bad_pairs_and_targets_are_named(arguments, phrase):
    similarities, same, target, *criterion = arguments
    with pytest.raises(InvalidInput, match=phrase):
        calibrate_threshold(np.array(similarities), np.array(same), target, criterion=(criterion or ["estimate"])[0])


@pytest.mark.parametrize("share", [0, 0.05, 0.29, 0.5])
def test_at_most_that_share_of_the_known_is_rejected(share):
    rng = np.random.default_rng(0)
    known, unknown = np.round(rng.normal(0.8, 0.1, size=100), 2), rng.normal(0.5, 0.1, size=70)  # with ties
    found = calibrate_rejection(known, share, unknown)
    fitting = [value for value in known if (known < value).mean() <= share]
    assert found.threshold == max(fitting)
    assert found.rejected == (known < found.threshold).mean()
    assert found.low <= found.rejected <= found.high
    assert found.detected == (unknown < found.threshold).mean()
    assert found.num_known == 100


@pytest.mark.parametrize("metric", ["cosine", "euclidean"])
def test_rows_left_out_calibrate_an_index(metric):
    rng = np.random.default_rng(1)
    labels = np.array([*"aaaabbbbbccc", "", ""])
    vectors = rng.normal(size=(14, 5)).astype(np.float32)
    given = [*labels[:12], None, float("nan")]
    index = EmbeddingIndex.build(vectors, range(14), given, metric=metric)
    assert list(index.labels) == list(labels)
    pairs = np.array([[index.similarities([i], [j])[0] for j in range(14)] for i in range(14)])
    np.fill_diagonal(pairs, -np.inf)
    found = index.calibrate_rejection(0.25)
    expected = np.sort(pairs.max(axis=1))[3]
    assert found.threshold == pytest.approx(expected)
    other = (labels != labels[:, None]) & (labels != "")
    nearest = np.where(other, pairs, -np.inf).max(axis=1)[labels != ""]
    assert found.detected == (nearest < found.threshold).mean()
    assert (found.num_known, found.num_unknown) == (14, 12)
    fewer = index.calibrate_rejection(0.25, num_neighbors=1)
    assert (fewer.threshold, fewer.detected <= found.detected) == (found.threshold, True)
    assert index.calibrate_rejection(0.25, max_rows=4).num_known == 4
    assert EmbeddingIndex.build(vectors, range(14)).calibrate_rejection(0.1).detected is None


@pytest.mark.parametrize("metric", ["cosine", "euclidean"])
def test_groups_left_out_calibrate_several_photos(metric, monkeypatch):
    monkeypatch.setattr(search, "_ENTRIES_AT_ONCE", 100)  # two groups at once
    rng = np.random.default_rng(0)
    labels = rng.permutation(np.repeat([*"abcdefghijkl", ""], 8))
    index = EmbeddingIndex.build(rng.normal(size=(104, 4)), range(104), labels, metric=metric)
    found = index.calibrate_rejection(0.25, together=3)
    _, classes = np.unique([label or row for row, label in enumerate(labels)], return_inverse=True)
    groups = groups_of_photos(classes, 3, 100, 0)
    assert len(np.unique(groups)) == 3 * 24
    known, others = [], []
    for group in groups:
        rest = np.setdiff1d(range(104), group)
        among = rest[labels[rest] != labels[group[0]]]
        assert set(labels[group]) == {labels[group[0]]} != {""}
        for scores, rows in ((known, rest), (others, among)):
            scores.append(index.search_together(index.vectors(group), 1, among=rows).similarities[0, 0])
    assert found.threshold == pytest.approx(np.sort(known)[6])
    assert found.detected == (np.array(others) < found.threshold).mean()
    assert (found.num_known, found.together) == (24, 3)
    assert index.calibrate_rejection(0.25, together=7) == found  # groups of 7 are 12 alone
    assert index.calibrate_rejection(0.25, together=3, max_rows=30).together == 1
    with pytest.raises(InvalidInput, match="no labels"):
        EmbeddingIndex.build(np.eye(4), range(4)).calibrate_rejection(0.1, together=2)


@pytest.mark.parametrize(
    ("arguments", "phrase"),
    [
        (([], 0.1), "known.*at least one"),
        (([np.nan], 0.1), "known.*no NaN"),
        (([0.5], 1), "max_rejected.*received 1"),
        (([0.5], -0.1), "max_rejected"),
    ],
)
def test_a_rejection_that_cannot_be_calibrated_is_refused(arguments, phrase):
    with pytest.raises(InvalidInput, match=phrase):
        calibrate_rejection(*arguments)
    with pytest.raises(InvalidInput, match="1 rows.*at least two"):
        EmbeddingIndex.build(np.eye(1), ["a"]).calibrate_rejection(0.1)
