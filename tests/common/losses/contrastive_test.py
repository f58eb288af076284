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
    np.testing.assert_allclose(case(loss), expected, rtol=1e-12)


def test_coincident_positives_do_not_dilute_the_mean():
    embeddings = tf.constant([[1.0, 0.0], [1.0, 0.0], [0.0, 1.0]])
    loss = ContrastiveLoss(positive_margin=0.0, negative_margin=0.5)
    np.testing.assert_allclose(loss(embeddings, tf.constant([0, 0, 0])), np.sqrt(2.0), rtol=1e-6)
