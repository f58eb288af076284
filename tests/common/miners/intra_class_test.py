import numpy as np
import tensorflow as tf
from scipy import stats

from common.miners import intra_class
from common.references import References


def test_two_different_others_of_the_class_with_equal_chances():
    labels, num_draws = np.array([0, 0, 0, 0, 1, 1, 1, 2]), 3000
    references = References(tf.zeros([8, 2]), labels)
    for label, expected in ((0, 12), (1, 6), (2, 0)):
        triplets = intra_class(tf.zeros([num_draws, 2]), np.full(num_draws, label), (1, 0), references)
        counts = np.zeros((8, 8))
        np.add.at(counts, (triplets.positives.numpy(), triplets.negatives.numpy()), 1)
        assert counts.sum() == (num_draws if expected else 0)  # a class of one has no triplet
        assert np.trace(counts) == 0
        assert (labels[np.nonzero(counts)[0]] == label).all()
        assert (labels[np.nonzero(counts)[1]] == label).all()
        assert (counts > 0).sum() == expected
        assert not expected or stats.chisquare(counts[counts > 0]).pvalue > 1e-3


def test_the_anchor_itself_is_not_drawn():
    labels = np.array([0, 0, 0, 1, 1, 0])
    for seed in range(5):
        for a, p, n in zip(*(part.numpy() for part in intra_class(tf.zeros([6, 2]), labels, (1, seed)))):
            assert len({a, p, n}) == 3
            assert labels[a] == labels[p] == labels[n] == 0


def test_draws_among_valid_references():
    references = References(tf.zeros([6, 2]), np.array([0, 0, 0, 0, 1, 1]), np.array([1, 1, 0, 1, 1, 1], bool))
    seen = set()
    for seed in range(20):
        anchors, positives, negatives = intra_class(tf.zeros([2, 2]), np.array([0, 1]), (0, seed), references)
        assert set(anchors.numpy()) == {0, 1}
        seen |= {int(positives[0]), int(negatives[0])}
        assert int(positives[0]) != int(negatives[0])
    assert seen == {0, 1, 3}


def test_a_batch_may_be_empty():
    assert len(intra_class(tf.zeros([0, 2]), np.zeros(0, int), (0, 0)).anchors) == 0
