import numpy as np
import tensorflow as tf

from common.miners import batch_hard, multi_similarity_pairs
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
