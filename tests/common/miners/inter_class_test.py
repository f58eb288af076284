import math

import numpy as np
import pytest
import tensorflow as tf
from scipy import stats

from common.errors import InvalidInput
from common.miners import inter_class
from common.references import References
from tests.common.miners.distance_weighted_test import density

MODES = [{}, {"negatives": "random"}, {"negatives": "semi_hard"}, {"positives": "distance"}, {"positives": "nearest"}]


def random_batch(seed=0, size=24, dim=5):
    return tf.constant(np.random.default_rng(seed).normal(size=(size, dim)), tf.float32), np.arange(size) % 5


@pytest.mark.parametrize("mode", MODES, ids=str)
def test_all_three_classes_differ(mode):
    embeddings, labels = random_batch()
    references = References(*random_batch(1, 30), np.arange(30) % 7 != 0)
    for given, other_labels in ((None, labels), (references, references.labels)):
        for seed in range(5):
            anchors, positives, negatives = (
                part.numpy() for part in inter_class(embeddings, labels, (2, seed), given, **mode)
            )
            np.testing.assert_array_equal(anchors, np.arange(24))
            assert (labels[anchors] != other_labels[positives]).all()
            assert (labels[anchors] != other_labels[negatives]).all()
            assert (other_labels[positives] != other_labels[negatives]).all()
            assert given is None or ((positives % 7 != 0).all() and (negatives % 7 != 0).all())


@pytest.mark.parametrize("mode", MODES, ids=str)
@pytest.mark.parametrize("labels", [[], [0, 0, 0, 0], [0, 0, 1, 1]])
def test_fewer_than_three_classes_have_no_triplet(mode, labels):
    embeddings = random_batch(size=len(labels))[0]
    assert len(inter_class(embeddings, np.array(labels, int), (0, 0), **mode).anchors) == 0


def circle(angles, dim):
    points = np.zeros((len(angles), dim))
    points[:, 0], points[:, 1] = np.cos(np.radians(angles)), np.sin(np.radians(angles))
    return points


@pytest.mark.parametrize("cutoff", [0.5, 1.0])
def test_frequencies_of_negatives_and_of_positives_given_them(cutoff):
    dim, num_draws, angles = 6, 20_000, [20.0, 40.0, 55.0, 70.0, 90.0, 100.0]
    classes = np.array([1, 1, 2, 2, 3, 3])
    anchors = circle(np.zeros(num_draws), dim)
    references = References(circle(angles, dim), classes)
    triplets = inter_class(tf.constant(anchors), np.zeros(num_draws, int), (0, 3), references, cutoff=cutoff)
    weights = np.array([1.0 / density(max(2.0 * math.sin(math.radians(a) / 2.0), cutoff), dim) for a in angles])
    counts = np.bincount(triplets.negatives, minlength=6)
    assert stats.chisquare(counts, num_draws * weights / weights.sum(), sum_check=False).pvalue > 0.001
    assert stats.chisquare(counts).pvalue < 1e-9  # the same test refuses equal chances
    positives, negatives = triplets.positives.numpy(), triplets.negatives.numpy()
    for negative in range(6):
        allowed = np.flatnonzero(classes != classes[negative])
        given = np.bincount(positives[negatives == negative], minlength=6)
        assert given[classes == classes[negative]].sum() == 0
        assert stats.chisquare(given[allowed]).pvalue > 0.001


def test_nearest_positives_are_the_nearest_of_the_classes_that_are_left():
    embeddings, labels = random_batch()
    points = embeddings.numpy() / np.linalg.norm(embeddings.numpy(), axis=1, keepdims=True)
    distances = np.linalg.norm(points[:, None] - points, axis=-1)
    for seed in range(3):
        triplets = inter_class(embeddings, labels, (0, seed), positives="nearest")
        for a, p, n in zip(*(part.numpy() for part in triplets)):
            left = np.flatnonzero((labels != labels[a]) & (labels != labels[n]))
            assert p == left[np.argmin(distances[a][left])]


def test_semi_hard_negatives_are_beyond_the_positive_where_there_are_such():
    embeddings, labels = random_batch(size=60)
    points = embeddings.numpy() / np.linalg.norm(embeddings.numpy(), axis=1, keepdims=True)
    distances, num_between = np.linalg.norm(points[:, None] - points, axis=-1), 0
    for a, p, n in zip(*(part.numpy() for part in inter_class(embeddings, labels, (0, 1), negatives="semi_hard"))):
        left = distances[a][(labels != labels[a]) & (labels != labels[p])]
        if ((left > distances[a, p]) & (left < distances[a, p] + 0.2)).any():
            assert distances[a, p] < distances[a, n] < distances[a, p] + 0.2
            num_between += 1
    assert num_between > 20


def test_arguments_out_of_range_are_refused():
    embeddings, labels = random_batch()
    for arguments, message in (
        ({"negatives": "hard"}, "negatives: received 'hard', expected one of distance, random, semi_hard"),
        ({"positives": "random"}, "positives: received 'random', expected one of uniform, distance, nearest"),
        ({"cutoff": 1.5}, "cutoff: received 1.5, expected a distance in"),
        ({"margin": 0.0}, "margin: received 0.0, expected a number greater than 0"),
    ):
        with pytest.raises(InvalidInput, match=message):
            inter_class(embeddings, labels, (0, 0), **arguments)
