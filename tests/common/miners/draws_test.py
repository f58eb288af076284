import numpy as np
import pytest
import tensorflow as tf
from scipy import stats

from common.miners import (
    Triplets,
    batch_hard,
    intra_class,
    multi_similarity_pairs,
    random_triplets,
    rho_regularized,
    semi_hard,
    soft_hard,
)
from common.references import References


def test_equals_loops_in_the_batch_and_over_references():
    rng = np.random.default_rng(0)
    embeddings, labels = rng.normal(size=(20, 4)), np.arange(20) % 6
    others, other_labels, valid = rng.normal(size=(30, 4)), rng.integers(0, 7, 30), np.arange(30) % 5 != 0
    for references in (None, References(tf.constant(others), other_labels, valid)):
        expected = []
        for anchor, label in enumerate(labels):
            points, classes = (embeddings, labels) if references is None else (others, other_labels)
            partners = np.flatnonzero(np.arange(20) != anchor if references is None else valid)
            by_distance = sorted(partners, key=lambda place: np.linalg.norm(points[place] - embeddings[anchor]))
            near = [place for place in by_distance if classes[place] == label]
            far = [place for place in by_distance if classes[place] != label]
            expected += [(anchor, near[-1], far[0])] if near and far else []
        mined = batch_hard(tf.constant(embeddings), labels, (0, 0), references)
        assert list(zip(*(part.numpy() for part in mined))) == expected


def test_references_without_a_row_have_neither_triplets_nor_pairs():
    empty = References(tf.zeros([0, 4]), tf.zeros([0], tf.int64))
    batch = tf.random.stateless_normal([6, 4], (0, 0)), np.arange(6) % 2, (0, 0), empty
    assert len(batch_hard(*batch).anchors) == 0
    assert multi_similarity_pairs(*batch).negative.shape == (6, 0)


def test_all_positives_and_negatives_have_equal_chances():
    num_draws = 12_000
    anchors, references = (
        np.ones((num_draws, 2)),
        References(np.random.default_rng(0).normal(size=(7, 2)), [0] * 3 + [1] * 4),
    )
    triplets = random_triplets(tf.constant(anchors), np.zeros(num_draws, int), (0, 0), references)
    for drawn, choices in ((triplets.positives, range(3)), (triplets.negatives, range(3, 7))):
        counts = np.bincount(drawn, minlength=7)
        assert counts[list(choices)].sum() == num_draws
        assert stats.chisquare(counts[list(choices)]).pvalue > 0.01
    paired = np.bincount(4 * triplets.positives + triplets.negatives - 3, minlength=12)
    assert stats.chisquare(paired).pvalue > 0.01  # independent of each other


def test_negatives_are_beyond_the_positive_but_within_the_margin_where_there_are_such():
    rng = np.random.default_rng(0)
    embeddings = rng.normal(size=(60, 3))
    embeddings /= np.linalg.norm(embeddings, axis=1, keepdims=True)
    labels = np.arange(60) % 12
    distances = np.linalg.norm(embeddings[:, None] - embeddings, axis=-1)
    num_between = 0
    for seed in range(5):
        for a, p, n in zip(
            *(part.numpy() for part in semi_hard(tf.constant(embeddings), labels, (0, seed), margin=0.1))
        ):
            negatives = distances[a][labels != labels[a]]
            between = (negatives > distances[a, p]) & (negatives < distances[a, p] + 0.1)
            if between.any():
                assert distances[a, p] < distances[a, n] < distances[a, p] + 0.1
                num_between += 1
    assert 100 < num_between < 300


def test_where_none_is_between_any_negative_is_drawn():
    embeddings, labels = tf.constant([[0.0], [0.1], [5.0], [6.0], [7.0]]), np.array([0, 0, 1, 2, 3])
    drawn = [semi_hard(embeddings, labels, (0, seed), margin=0.1) for seed in range(40)]
    for anchor in range(2):
        assert {int(triplets.negatives[anchor]) for triplets in drawn} == {2, 3, 4}


def test_draws_hard_ones_on_both_sides_and_leaves_out_easy_anchors():
    points = np.array([0.0, 0.1, 3.0, 1.0, 5.0, 5.2])[:, None]
    labels = np.array([0, 0, 0, 1, 2, 2])
    drawn = set()
    for seed in range(40):
        drawn |= set(zip(*(part.numpy() for part in soft_hard(tf.constant(points), labels, (0, seed)))))
    # 0: farthest positive 3, nearest negative 1: only the positive at 3, only the negative at 1. 1: the same.
    # 2: its positives are at 3 and 2.9, its negatives at 2, 2 and 2.2. 3 has no positive, 4 and 5 are easy.
    expected = {(0, 2, 3), (1, 2, 3)} | {(2, p, n) for p in (0, 1) for n in (3, 4, 5)}
    assert drawn == expected


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


NUM = 10_000
TRIPLETS = Triplets(*(tf.range(NUM, dtype=tf.int64) + offset for offset in (0, 20_000, 40_000)))


@pytest.mark.parametrize("rho_probability", [0.0, 0.15, 0.35, 1.0])
def test_so_many_are_switched_and_the_others_stay(rho_probability):
    anchors, positives, negatives = (part.numpy() for part in rho_regularized(TRIPLETS, rho_probability, (0, 1), NUM))
    np.testing.assert_array_equal(anchors, TRIPLETS.anchors)
    chosen = positives == anchors
    np.testing.assert_array_equal(negatives[chosen], TRIPLETS.positives.numpy()[chosen])
    np.testing.assert_array_equal(positives[~chosen], TRIPLETS.positives.numpy()[~chosen])
    np.testing.assert_array_equal(negatives[~chosen], TRIPLETS.negatives.numpy()[~chosen])
    if rho_probability in (0.0, 1.0):
        assert chosen.mean() == rho_probability
    else:
        assert stats.binomtest(int(chosen.sum()), NUM, rho_probability).pvalue > 0.01


def test_the_anchor_is_found_behind_the_references():
    behind = rho_regularized(TRIPLETS, 1.0, (0, 1), NUM, first_self=77).positives - TRIPLETS.anchors
    assert set(behind.numpy()) == {77}
