import math

import numpy as np
import pytest
import tensorflow as tf
from scipy import stats

from common.diagnostics import class_distances, evaluate_clustering
from common.errors import InvalidInput
from common.losses import MarginLoss, MinedLoss
from common.references import References
from common.retrieval import evaluate_retrieval
from milbich_dml import SamplingDistribution, SamplingRecord, binned, bins_of, held_back_figures
from milbich_dml.distance_bins import bin_edges, has_center_in
from milbich_dml.policy_adapted_sampling import Decision
from milbich_dml.training_state import TrainingStateHistory

LOW, HIGH = 0.2, 1.2
LOG_WEIGHTS = np.log([1.0, 4.0, 2.0, 8.0, 3.0])
# Distances of the negatives: two, one, none, three in the bins 0, 1, 2, 3, none in 4, one below and one above.
DISTANCES = [0.25, 0.35, 0.5, 0.82, 0.9, 0.95, 0.1, 1.5]
BINS = [0, 0, 1, 3, 3, 3, -1, 5]


def at_distances(distances, dim=3):
    """Unit vectors at given distances from the first axis."""
    angles = 2.0 * np.arcsin(np.array(distances) / 2.0)
    points = np.zeros((len(angles), dim))
    points[:, 0], points[:, 1] = np.cos(angles), np.sin(angles)
    return points


def drawn(draws, log_weights=LOG_WEIGHTS, num_draws=20_000, seed=3, **settings):
    """Negatives of many anchors in the same place, with one positive each."""
    anchors = np.zeros((num_draws, 3))
    anchors[:, 0] = 2.0  # directions are what counts
    references = References(
        np.concatenate([at_distances(DISTANCES), at_distances([0.4])]), np.array([1] * len(DISTANCES) + [0])
    )
    settings = {"log_weights": tf.constant(log_weights), "low": LOW, "high": HIGH, "draws": draws, **settings}
    return binned(tf.constant(anchors), np.zeros(num_draws, int), (0, seed), references, **settings)


@pytest.mark.parametrize("draws", ["bins", "candidates"])
def test_frequencies_match_the_distribution(draws):
    triplets = drawn(draws)
    counts = np.bincount(triplets.negatives, minlength=len(DISTANCES))
    assert counts[6:].sum() == 0  # outside of the interval
    p = np.exp(LOG_WEIGHTS)
    weights = np.array([p[bin_] / (BINS[:6].count(bin_) if draws == "bins" else 1) for bin_ in BINS[:6]])
    assert stats.chisquare(counts[:6], 20_000 * weights / weights.sum()).pvalue > 1e-3
    other = np.array([p[bin_] / (BINS[:6].count(bin_) if draws != "bins" else 1) for bin_ in BINS[:6]])
    assert stats.chisquare(counts[:6], 20_000 * other / other.sum()).pvalue < 1e-9  # the test tells them apart
    assert len(triplets.anchors) == 20_000
    assert (triplets.positives.numpy() == len(DISTANCES)).all()


def test_empty_bins_leave_their_chances_to_the_others():
    counts = np.bincount(np.array(BINS)[drawn("bins", [0.0, 0.0, 50.0, 0.0, 50.0]).negatives], minlength=4)
    assert stats.chisquare(counts[[0, 1, 3]]).pvalue > 1e-3
    assert counts[2] == 0


@pytest.mark.parametrize("draws", ["bins", "candidates"])
def test_extreme_weights_stay_finite(draws):
    extreme = np.log([1e-25, 1e25, 1e-25, 1e-25, 1e25])
    assert set(drawn(draws, extreme, num_draws=500).negatives.numpy()) == {2}
    nearly_none = np.log([1e-25] * 5)
    assert set(drawn(draws, nearly_none, num_draws=500).negatives.numpy()) == {0, 1, 2, 3, 4, 5}


def test_edges_by_hand():
    distances = tf.constant([[0.0, 0.49, 0.5, 0.99], [1.0, 1.49, 1.5, 1.51]], tf.float64)
    np.testing.assert_array_equal(bins_of(distances, 2, 0.5, 1.5), [[-1, -1, 0, 0], [1, 1, 1, 2]])


def inside_by_loops(embeddings, labels, others, other_labels, is_self, positives_too):
    """For each anchor the candidates inside of the interval, by plain loops."""
    found = []
    for i, (anchor, label) in enumerate(zip(embeddings, labels)):
        row = set()
        for k, (other, other_label) in enumerate(zip(others, other_labels)):
            if is_self and i == k or (other_label == label and not positives_too):
                continue
            if LOW <= math.dist(anchor, other) <= HIGH:
                row.add(k)
        found.append(row)
    return found


@pytest.mark.parametrize("positives_too", [False, True])
@pytest.mark.parametrize("given", [False, True])
def test_all_candidates_of_loops_and_no_others_are_drawn(given, positives_too):
    rng = np.random.default_rng(0)
    embeddings, others = rng.normal(size=(9, 3)), rng.normal(size=(12, 3))
    embeddings /= np.linalg.norm(embeddings, axis=1, keepdims=True)
    others /= np.linalg.norm(others, axis=1, keepdims=True)
    labels, other_labels = np.arange(9) % 3, np.arange(12) % 3
    references = References(others, other_labels) if given else None
    expected = inside_by_loops(
        embeddings,
        labels,
        others if given else embeddings,
        other_labels if given else labels,
        not given,
        positives_too,
    )
    settings = {"log_weights": tf.zeros([4]), "low": LOW, "high": HIGH, "positives_too": positives_too}
    points = tf.constant(embeddings)
    draw = tf.function(
        lambda step: binned(points, labels, tf.stack([1, step]), references, **settings), autograph=False
    )
    seen = [set() for _ in labels]
    for step in range(150):
        triplets = draw(tf.constant(step))
        for a, p, n in zip(*(part.numpy() for part in triplets)):
            assert p != n
            seen[a].add(int(n))
    assert seen == expected
    assert any(len(row) < (8 if positives_too else 6) for row in expected)


def test_anchors_without_a_candidate_or_positive_have_no_triplet():
    points, labels = tf.constant(at_distances([0.0, 0.05, 0.1])), np.array([0, 0, 1])
    settings = {"log_weights": tf.zeros([4]), "low": 0.3, "high": 1.0}
    assert len(binned(points, labels, (0, 0), **settings).anchors) == 0
    points = tf.constant(at_distances([0.0, 0.05, 0.6]))
    np.testing.assert_array_equal(binned(points, labels, (0, 0), **settings).anchors, [0, 1])
    assert len(binned(tf.zeros([0, 3]), np.zeros(0, int), (0, 0), **settings).anchors) == 0


def test_centers_on_the_ends_count():
    edges = bin_edges(4, 0.0, 2.0)  # centres .25, .75, 1.25, 1.75
    assert has_center_in(edges, (0.75, 1.25)).tolist() == [False, True, True, False]
    assert has_center_in(edges, (0.3, 0.7)).tolist() == [False] * 4


def test_begins_with_weight_on_the_bins_of_the_start():
    distribution = SamplingDistribution(30, outside=1e-3)
    weights = np.exp(np.array(distribution.log_weights))
    centers = 0.1 + 1.3 / 30 * (np.arange(30) + 0.5)
    chosen = (centers >= 0.3) & (centers <= 0.7)
    assert chosen.sum() == 9
    np.testing.assert_allclose(weights, np.where(chosen, 1.0, 1e-3), rtol=1e-5)
    np.testing.assert_allclose(distribution.probabilities().sum(), 1.0, rtol=1e-12)
    np.testing.assert_allclose(SamplingDistribution(4, start=None).probabilities(), 0.25, rtol=1e-6)


def test_begins_with_given_weights_and_a_copy_has_them():
    distribution = SamplingDistribution(3, weights=[1.0, 1e-25, 3.0])
    np.testing.assert_allclose(distribution.probabilities(), [0.25, 0.25e-25, 0.75], rtol=1e-5)
    again = SamplingDistribution.from_config(distribution.get_config())
    np.testing.assert_array_equal(again.log_weights, distribution.log_weights)
    for weights in ([1.0, 2.0], [1.0, 1.0, 0.0], [1.0, 1.0, np.nan]):
        with pytest.raises(InvalidInput, match="weights: .*expected 3 numbers in"):
            SamplingDistribution(3, weights=weights)


def test_scaling_multiplies_weights_within_their_bounds():
    distribution = SamplingDistribution(3, start=None)
    distribution.scale_by([0.8, 1.0, 1.25])
    np.testing.assert_allclose(distribution.probabilities(), np.array([0.8, 1.0, 1.25]) / 3.05, rtol=1e-6)
    distribution.scale_by([1.25, 1.0, 0.8])  # reciprocals cancel
    np.testing.assert_allclose(distribution.probabilities(), 1 / 3, rtol=1e-6)
    for _ in range(3):
        distribution.scale_by([1e-20, 1.0, 1e20])
    np.testing.assert_allclose(np.array(distribution.log_weights), np.log([1e-25, 1.0, 1e25]), rtol=1e-6)
    assert np.isfinite(distribution.probabilities()).all()


@pytest.mark.parametrize("positives_too", [False, True])
def test_a_mined_loss_draws_by_the_present_weights(positives_too):
    distribution = SamplingDistribution(4, 0.2, 1.9, None, draws="candidates", positives_too=positives_too)
    loss = MinedLoss(MarginLoss(), distribution, seed=3)
    assert distribution.trainable_variables == []
    assert any(weight is distribution.log_weights for weight in loss.weights)
    rng = np.random.default_rng(0)
    embeddings, labels = rng.normal(size=(12, 4)).astype(np.float32), np.arange(12) % 3
    step = tf.function(lambda: loss(embeddings, labels), autograph=False)
    before = float(step())
    distribution.scale_by([1e-9, 1.0, 1e9, 1e-9])
    assert float(step()) != before  # a trace reads the weight anew
    expected = binned(
        *(embeddings, labels, (3, 0)),
        log_weights=np.array(distribution.log_weights),
        low=0.2,
        high=1.9,
        draws="candidates",
        positives_too=positives_too,
    )
    for part, other in zip(distribution.triplets(embeddings, labels, (3, 0)), expected):
        np.testing.assert_array_equal(part, other)


def test_sampling_distribution_arguments_out_of_range_are_refused():
    for arguments, message in (
        ({"num_bins": 0}, "num_bins: received 0, expected a number greater than 0"),
        ({"low": 2.0}, "interval: received .* expected 0 <= low < high"),
        ({"start": (0.31, 0.32)}, "start: received .* expected an interval with the centre of a bin"),
        ({"outside": 0.0}, "outside: received 0.0, expected a weight in"),
        ({"draws": "all"}, "draws: received 'all', expected one of bins, candidates"),
    ):
        with pytest.raises(InvalidInput, match=message):
            SamplingDistribution(**arguments)
    for factors in ([1.0, 2.0], [1.0, 0.0, 1.0], [1.0, np.inf, 1.0]):
        with pytest.raises(InvalidInput, match="factors: received .* expected 3 numbers greater than 0"):
            SamplingDistribution(3, start=None).scale_by(factors)


def test_windows_equal_loops_over_a_long_run():
    history, rng = TrainingStateHistory(3), np.random.default_rng(0)
    seen = []
    for step in range(40):
        seen.append(rng.normal(size=3))
        history.append(seen[-1])
        recent = seen[-20:]
        recent = [recent[0]] * (20 - len(recent)) + recent
        means = [np.mean(seen[-window:], axis=0) for window in (2, 8, 16, 32)]
        expected = np.concatenate([*recent, *means, np.full(30, 1 / 30), [step / 40]])
        np.testing.assert_allclose(history.state(np.full(30, 1 / 30), step / 40), expected, rtol=1e-5)
    assert history.size(30) == 24 * 3 + 31
    assert TrainingStateHistory(7).size(30) == 199
    assert len(history.measurements) == 32


def test_decisions_are_kept_in_their_order_and_restored():
    record = SamplingRecord(SamplingDistribution(2, start=None), 7)
    assert len(record) == 0
    for number, reward in enumerate((None, -1.0)):
        shares = np.array([0.25, 0.75]) if number else np.array([0.5, 0.5])
        record.observe(Decision(number, shares, np.zeros(3), np.array([number, 2]), reward))
    other = SamplingRecord(SamplingDistribution(2, start=None), 7)
    other.restore(record.state(), record.arrays())
    found = other.as_arrays()
    np.testing.assert_array_equal(found["steps"], [7, 14])
    np.testing.assert_array_equal(found["probabilities"], [[0.5, 0.5], [0.25, 0.75]])
    np.testing.assert_array_equal(found["actions"], [[0, 2], [1, 2]])
    np.testing.assert_array_equal(found["rewards"], [np.nan, -1.0])
    np.testing.assert_allclose(found["edges"], [0.1, 0.75, 1.4])


def test_figures_are_those_of_retrieval_clusters_and_distances():
    rng = np.random.default_rng(0)
    labels = np.arange(24) % 4
    embeddings = (np.eye(4)[labels] + 0.6 * rng.normal(size=(24, 4))).astype(np.float32)
    figures = held_back_figures(embeddings, labels, (1, 3), seed=2)
    assert list(figures) == ["R@1", "R@3", "NMI", "pi_intra", "pi_inter"]
    result = evaluate_retrieval(embeddings, labels, recall_at=(1, 3))
    assert [figures["R@1"], figures["R@3"]] == [result.precision_at_1, result.recall_at[3]]
    assert figures["NMI"] == evaluate_clustering(embeddings, labels, seed=2).normalized_mutual_information
    assert (figures["pi_intra"], figures["pi_inter"]) == tuple(class_distances(embeddings, labels, "code"))
