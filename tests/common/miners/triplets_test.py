import functools

import numpy as np
import pytest
import tensorflow as tf
from scipy import stats

from common.miners import (
    Triplets,
    batch_hard,
    distance_weighted,
    inter_class,
    intra_class,
    pairs_of,
    random_triplets,
    semi_hard,
    soft_hard,
)
from common.miners.triplets import draw
from common.references import References
from tests.common.miners.inter_class_test import MODES

DRAWING = [random_triplets, semi_hard, soft_hard, distance_weighted]


def random_batch(seed=0, size=32, dim=8):
    rng = np.random.default_rng(seed)
    return tf.constant(rng.normal(size=(size, dim)), tf.float32), rng.integers(0, 6, size)


@pytest.fixture(params=[*DRAWING, batch_hard], ids=lambda miner: miner.__name__)
def miner(request):
    return request.param


def test_triplets_are_of_an_anchor_a_positive_and_a_negative(miner):
    embeddings, labels = random_batch()
    references = References(*random_batch(1, 50), np.arange(50) % 7 != 0)
    for given, other_labels in ((None, labels), (references, references.labels)):
        for seed in range(5):
            anchors, positives, negatives = (part.numpy() for part in miner(embeddings, labels, (3, seed), given))
            assert len(anchors) > 10
            assert (np.diff(anchors) > 0).all()
            assert (labels[anchors] == other_labels[positives]).all()
            assert (labels[anchors] != other_labels[negatives]).all()
            if given is None:
                assert (anchors != positives).all()
            else:
                assert (positives % 7 != 0).all()
                assert (negatives % 7 != 0).all()


def test_anchors_without_a_partner_are_left_out(miner):
    embeddings, _ = random_batch(size=4)
    for labels in ([0, 0, 0, 0], [0, 1, 2, 3]):
        assert len(miner(embeddings, np.array(labels), (0, 0)).anchors) == 0
    assert set(random_triplets(embeddings, np.array([0, 0, 1, 2]), (0, 0)).anchors.numpy()) == {0, 1}


@pytest.mark.parametrize(
    "miner", [*DRAWING, batch_hard, intra_class, *(functools.partial(inter_class, **mode) for mode in MODES)]
)
def test_a_compiled_function_draws_the_same_and_another_seed_others(miner):
    embeddings, labels = random_batch()
    compiled = tf.function(lambda step: miner(embeddings, labels, tf.stack([0, step])))
    drawn = [np.stack(miner(embeddings, labels, (0, step))) for step in (1, 2)]
    for step, expected in enumerate(drawn, 1):
        np.testing.assert_array_equal(compiled(tf.constant(step)), expected)
    assert miner is batch_hard or not np.array_equal(*drawn)


@pytest.mark.parametrize("weights", [[1.0, 1.0, 1.0, 1.0], [0.1, 0.2, 0.3, 0.4], [1e-30, 1e-31, 3e-30, 6e-30]])
def test_frequencies_match_the_weights(weights):
    num_draws = 20_000
    log_weights = tf.tile(tf.math.log(tf.constant([[*weights, 5.0]])), [num_draws, 1])
    mask = tf.tile([[True] * 4 + [False]], [num_draws, 1])
    counts = np.bincount(draw(mask, (0, 1), 0, log_weights), minlength=5)
    assert counts[4] == 0
    expected = num_draws * np.array(weights) / np.sum(weights)
    assert stats.chisquare(counts[:4], expected, sum_check=False).pvalue > 0.01


def test_pairs_of_triplets_are_their_masks():
    triplets = Triplets(*(tf.constant(part, tf.int64) for part in ([0, 2], [1, 1], [3, 0])))
    positive, negative = pairs_of(triplets, 3, 4)
    np.testing.assert_array_equal(positive, [[0, 1, 0, 0], [0, 0, 0, 0], [0, 1, 0, 0]])
    np.testing.assert_array_equal(negative, [[0, 0, 0, 1], [0, 0, 0, 0], [1, 0, 0, 0]])
