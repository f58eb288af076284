import numpy as np
import pytest
import tensorflow as tf

from common.errors import InvalidInput
from common.miners import semi_hard


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


def test_a_margin_of_zero_is_refused():
    with pytest.raises(InvalidInput, match="margin: received 0, expected a number greater than 0"):
        semi_hard(tf.ones([2, 2]), np.array([0, 1]), (0, 0), margin=0)
