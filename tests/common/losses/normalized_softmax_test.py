import math

import numpy as np
import pytest
import tensorflow as tf

from common.losses import NormalizedSoftmaxLoss


@pytest.mark.parametrize("temperature", [0.05, 0.5])
def test_equals_loops_over_given_references_or_its_own_class_vectors(case, loops, temperature):
    loss = NormalizedSoftmaxLoss(4, 2, temperature, normalization=case.normalization)
    terms = []
    for anchor, positives, negatives in case.anchors(references=case.references or loss.proxy_bank.references()):
        near = [loops.inner_product(anchor, p) / temperature for p in positives]
        far = [loops.inner_product(anchor, n) / temperature for n in negatives]
        highest = max(near + far)
        if positives:
            shares = [sum(math.exp(s - highest) for s in part) for part in (near, near + far)]
            terms.append(math.log(shares[1]) - math.log(shares[0]))
    np.testing.assert_allclose(case(loss), loops.mean(terms), rtol=5e-5, atol=1e-13)


def test_sample_weights_are_those_of_kerass_cross_entropy():
    rng = np.random.default_rng(0)
    embeddings, labels, weights = rng.normal(size=(7, 3)), rng.integers(0, 4, 7), rng.uniform(0.0, 2.0, 7)
    loss = NormalizedSoftmaxLoss(4, 3, 0.5)
    units = [x / np.linalg.norm(x, axis=1, keepdims=True) for x in (embeddings, np.array(loss.proxy_bank.proxies))]
    cross_entropy = tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    expected = cross_entropy(labels, units[0] @ units[1].T / 0.5, sample_weight=weights)
    np.testing.assert_allclose(loss(embeddings, labels, sample_weight=weights), expected, rtol=1e-5)


def test_the_temperature_is_that_of_the_paper():
    assert NormalizedSoftmaxLoss(4, 2).temperature == 0.05
