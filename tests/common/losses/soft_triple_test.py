import math

import numpy as np
import pytest
import tensorflow as tf
from scipy.spatial.distance import pdist

from common.losses import SoftTripleLoss


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


def expected_regularization(centers):
    num_classes, num_centers, _ = centers.shape
    distances = [pdist(unit) for unit in centers / np.linalg.norm(centers, axis=2, keepdims=True)]
    return np.sum(distances) / (num_classes * num_centers * (num_centers - 1))


@pytest.mark.parametrize(
    ("scale", "gamma", "tau", "margin"), [(20.0, 0.1, 0.2, 0.01), (17.69, 19.18, 0.0669, 0.3588), (2.0, 0.3, 5.0, 0.2)]
)
def test_equals_loops_over_given_references_or_its_own_centers(case, loops, scale, gamma, tau, margin):
    loss = SoftTripleLoss(4, 2, 3, scale, gamma, tau, margin, normalization=case.normalization)
    references = case.references or loss.proxy_bank.references()
    expected = expected_cross_entropy(case, loops, references, scale, gamma, margin)
    if case.references is None:
        expected += tau * expected_regularization(np.asarray(references.embeddings).reshape(4, 3, 2))
    np.testing.assert_allclose(case(loss), expected, rtol=5e-5)


def test_coincident_centers_have_a_finite_gradient():
    loss = SoftTripleLoss(3, 4, 5)
    loss.proxy_bank.proxies.assign(np.ones((15, 4)))
    with tf.GradientTape() as tape:
        value = loss(np.eye(4)[:3], np.array([0, 1, 2]))
    assert np.all(np.isfinite(tape.gradient(value, loss.trainable_variables)[0]))
