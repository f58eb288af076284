import math

import numpy as np
import pytest
import tensorflow as tf

from common.losses import SoftTripleLoss
from common.references import References


def class_similarity(anchor, centers, gamma, loops):
    similarities = [loops.inner_product(anchor, center) for center in centers]
    weights = [math.exp(s / gamma) for s in similarities]
    return sum(w * s for w, s in zip(weights, similarities)) / sum(weights)


def expected_cross_entropy(case, loops, references, scale, gamma, margin):
    classes, terms = {}, []
    for vector, label in case.others(references):
        classes.setdefault(label, []).append(vector)
    for anchor, label in case.batch():
        if label in classes:
            similarities = {c: class_similarity(anchor, centers, gamma, loops) for c, centers in classes.items()}
            logits = {c: scale * (s - (margin if c == label else 0.0)) for c, s in similarities.items()}
            terms.append(math.log(sum(math.exp(logit) for logit in logits.values())) - logits[label])
    return loops.mean(terms)


def expected_regularization(centers, loops):
    total = 0.0
    for class_centers in centers:
        unit = [loops.normalized(center, "unit") for center in class_centers]
        for k in range(len(unit)):
            for other in range(k + 1, len(unit)):
                total += math.sqrt(2.0 - 2.0 * loops.inner_product(unit[k], unit[other]))
    num_classes, num_centers, _ = centers.shape
    return total / (num_classes * num_centers * (num_centers - 1))


@pytest.mark.parametrize(
    ("scale", "gamma", "tau", "margin"), [(20.0, 0.1, 0.2, 0.01), (17.69, 19.18, 0.0669, 0.3588), (2.0, 0.3, 5.0, 0.2)]
)
def test_equals_loops_over_given_references_or_its_own_centers(case, loops, scale, gamma, tau, margin):
    loss = SoftTripleLoss(4, 2, 3, scale, gamma, tau, margin, normalization=case.normalization)
    references = case.references or loss.proxy_bank.references()
    expected = expected_cross_entropy(case, loops, references, scale, gamma, margin)
    if case.references is None:
        expected += tau * expected_regularization(np.asarray(references.embeddings).reshape(4, 3, 2), loops)
    np.testing.assert_allclose(case(loss), expected, rtol=5e-5)


def test_order_of_the_references_does_not_matter():
    rng = np.random.default_rng(0)
    embeddings, labels = rng.normal(size=(5, 4)), np.array([3, 9, 3, 1, 9])
    vectors, classes = rng.normal(size=(12, 4)), np.array([3, 3, 9, 1, 9, 1, 3, 77, 1, 9, 77, 3]) * 2**40
    order = rng.permutation(12)
    loss = SoftTripleLoss(100, 4)
    straight = loss(embeddings, labels * 2**40, References(vectors, classes))
    shuffled = loss(embeddings, labels * 2**40, References(vectors[order], classes[order]))
    np.testing.assert_allclose(straight, shuffled, rtol=1e-5)


def test_coincident_centers_have_a_finite_gradient():
    loss = SoftTripleLoss(3, 4, 5)
    loss.proxy_bank.proxies.assign(np.ones((15, 4)))
    with tf.GradientTape() as tape:
        value = loss(np.eye(4)[:3], np.array([0, 1, 2]))
    assert np.all(np.isfinite(tape.gradient(value, loss.trainable_variables)[0]))
