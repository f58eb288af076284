import math

import numpy as np
import pytest
import tensorflow as tf

from common.losses import CircleLoss
from common.references import References


@pytest.mark.parametrize("anchors", ["embeddings", "references"])
@pytest.mark.parametrize(("margin", "scale"), [(0.4, 8.0), (0.25, 2.0)])
def test_equals_loops(case, loops, margin, scale, anchors):
    terms = []
    for anchor, positives, negatives in case.anchors(anchors):
        near = [loops.inner_product(anchor, p) for p in positives]
        far = [loops.inner_product(anchor, n) for n in negatives]
        pull = sum(math.exp(-scale * max(0.0, 1.0 + margin - s) * (s - 1.0 + margin)) for s in near)
        push = sum(math.exp(scale * max(0.0, s + margin) * (s - margin)) for s in far)
        if positives and negatives:
            terms.append(math.log1p(pull * push))
    for constant_weights in (True, False):
        loss = CircleLoss(margin, scale, anchors, constant_weights, normalization=case.normalization)
        np.testing.assert_allclose(case(loss), loops.mean(terms), rtol=2e-4)


def test_the_weights_are_constant_in_the_gradient():
    similarities = tf.Variable([0.3, 0.7])  # of a positive and of a negative to the anchor
    with tf.GradientTape() as tape:
        points = tf.stack([similarities, tf.sqrt(1.0 - similarities**2)], axis=1)
        value = CircleLoss(0.4, 0.5)(np.array([[1.0, 0.0]]), np.array([0]), References(points, np.array([0, 1])))
    pull, push = -0.5 * (1.4 - 0.3) * (0.3 - 0.6), 0.5 * (0.7 + 0.4) * (0.7 - 0.4)
    share = 1.0 / (1.0 + math.exp(-(pull + push)))
    expected = [-share * 0.5 * (1.4 - 0.3), share * 0.5 * (0.7 + 0.4)]
    np.testing.assert_allclose(tape.gradient(value, similarities), expected, rtol=1e-5)


def test_the_scale_of_retrieval_does_not_overflow():
    embeddings = np.array([[1.0, 0.0], [-1.0, 0.0], [1.0, 0.0]], np.float32)
    pull, push = 80.0 * 2.4 * 1.6, 80.0 * 1.4 * 0.6  # the second anchor's negative has weight 0
    np.testing.assert_allclose(CircleLoss(0.4, 80.0)(embeddings, np.array([0, 0, 1])), pull + push / 2.0, rtol=1e-5)
