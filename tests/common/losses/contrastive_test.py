import numpy as np
import pytest
import tensorflow as tf

from common.losses import ContrastiveLoss


@pytest.mark.parametrize(("positive_margin", "negative_margin"), [(0.0, 0.3841), (0.2652, 0.5409), (0.3, 1.4)])
def test_equals_loops(case, loops, positive_margin, negative_margin):
    too_far, too_close = [], []
    for anchor, positives, negatives in case.anchors():
        too_far += [max(0.0, loops.distance(anchor, p) - positive_margin) for p in positives]
        too_close += [max(0.0, negative_margin - loops.distance(anchor, n)) for n in negatives]
    expected = loops.mean_of_nonzero(too_far) + loops.mean_of_nonzero(too_close)
    loss = ContrastiveLoss(positive_margin, negative_margin, normalization=case.normalization)
    np.testing.assert_allclose(case(loss), expected, rtol=1e-5)


def test_coincident_positives_do_not_dilute_the_mean():
    embeddings = tf.constant([[1.0, 0.0], [1.0, 0.0], [0.0, 1.0]])
    loss = ContrastiveLoss(positive_margin=0.0, negative_margin=0.5)
    np.testing.assert_allclose(loss(embeddings, tf.constant([0, 0, 0])), np.sqrt(2.0), rtol=1e-6)


def test_terms_are_the_roots_of_those_of_tensorflow_addons():
    tfa = pytest.importorskip("tensorflow_addons", reason="tensorflow-addons needs the thesis stack")
    embeddings = tf.math.l2_normalize(tf.constant(np.random.default_rng(0).normal(size=(8, 3)), tf.float32), axis=1)
    labels = tf.repeat(tf.range(4), 2)
    distances = tf.cast(tf.norm(embeddings[:, None] - embeddings[None], axis=-1), tf.float32)
    same = tf.cast(labels[:, None] == labels[None], tf.float32)
    off_diagonal = ~np.eye(8, dtype=bool)
    # Addons has y d² + (1 - y) [m - d]₊²: the squares of our terms at a positive margin of zero.
    terms = np.sqrt(tfa.losses.contrastive_loss(same, distances, margin=1.2))
    means = [terms[mask & off_diagonal & (terms > 0)].mean() for mask in (same.numpy() == 1, same.numpy() == 0)]
    np.testing.assert_allclose(ContrastiveLoss(0.0, 1.2)(embeddings, labels), sum(means), rtol=1e-5)
