import math

import numpy as np
import pytest
import tensorflow as tf
from scipy import stats

from common.errors import InvalidInput
from common.references import References
from milbich_dml import binned, bins_of

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


def test_arguments_out_of_range_are_refused():
    for settings, message in (
        ({"draws": "pairs"}, "draws: received 'pairs', expected one of bins, candidates"),
        ({"low": 1.0, "high": 1.0}, r"interval: received \(1.0, 1.0\), expected 0 <= low < high"),
    ):
        with pytest.raises(InvalidInput, match=message):
            drawn(**{"draws": "bins", **settings})
