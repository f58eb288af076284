import numpy as np
import pytest
import tensorflow as tf

from common.losses import CosineContrastiveLoss
from common.references import References


@pytest.mark.parametrize("margin", [0.5, -0.2])
def test_equals_loops(case, loops, margin):
    total, num_anchors = 0.0, 0
    for anchor, positives, negatives in case.anchors():
        total += sum(max(0.0, 1.0 - loops.inner_product(anchor, p) - 1e-5) for p in positives)
        total += sum(max(0.0, loops.inner_product(anchor, n) - margin) for n in negatives)
        num_anchors += 1
    loss = CosineContrastiveLoss(margin, normalization=case.normalization)
    np.testing.assert_allclose(case(loss), total / num_anchors, rtol=1e-12)


def test_mean_of_active_equals_loops(case, loops):
    terms = []
    for anchor, positives, negatives in case.anchors():
        pull = [1.0 - loops.inner_product(anchor, p) - 1e-5 for p in positives]
        push = [loops.inner_product(anchor, n) + 0.2 for n in negatives]
        terms.append(sum(loops.mean([term for term in side if term > 0]) for side in (pull, push)))
    loss = CosineContrastiveLoss(-0.2, "mean_of_active", normalization=case.normalization)
    np.testing.assert_allclose(case(loss), sum(terms) / len(terms), rtol=1e-12)


def test_mean_of_active_does_not_grow_with_the_references():
    embeddings = np.array([[1.0, 0.0], [0.8, 0.6], [0.6, 0.8], [0.0, 1.0]], np.float32)
    labels = np.array([0, 0, 1, 1])
    once = References(tf.constant(embeddings), tf.constant(labels))
    twice = References(tf.constant(np.repeat(embeddings, 2, axis=0)), tf.constant(np.repeat(labels, 2)))
    mean, total = CosineContrastiveLoss(0.3, "mean_of_active"), CosineContrastiveLoss(0.3)
    np.testing.assert_allclose(mean(embeddings, labels, twice), mean(embeddings, labels, once), rtol=1e-6)
    np.testing.assert_allclose(total(embeddings, labels, twice), 2 * total(embeddings, labels, once), rtol=1e-6)


def test_a_self_match_costs_nothing():
    assert CosineContrastiveLoss()(np.array([[0.6, 0.8], [0.6, 0.8]]), np.array([1, 1])) == 0.0
