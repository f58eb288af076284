import math

import numpy as np
import pytest

from common.losses import ProxyNCALoss
from common.references import References


def expected_loss(case, loops, temperature, references=None):
    terms = []
    for anchor, positives, negatives in case.anchors(references=references):
        near = sum(math.exp(loops.inner_product(anchor, p) / temperature) for p in positives)
        far = sum(math.exp(loops.inner_product(anchor, n) / temperature) for n in negatives)
        if positives:
            terms.append(-math.log(near / (near + far)))
    return loops.mean(terms)


@pytest.mark.parametrize("temperature", [0.11, 0.5])
def test_equals_loops_over_given_references_or_its_own_proxies(case, loops, temperature):
    loss = ProxyNCALoss(4, 2, proxies_per_class=2, temperature=temperature, normalization=case.normalization)
    references = case.references or loss.proxy_bank.references()
    np.testing.assert_allclose(case(loss), expected_loss(case, loops, temperature, references), rtol=2e-5)


@pytest.mark.parametrize("proxies_per_class", [1, 3])
def test_as_printed_it_is_of_squared_distances_to_the_other_classes(proxies_per_class):
    """Largest relative error in float64: 1.3e-16."""
    rng = np.random.default_rng(0)
    embeddings, labels = rng.normal(size=(8, 5)), rng.integers(0, 6, 8)
    loss = ProxyNCALoss(6, 5, proxies_per_class, temperature=0.5, denominator="negatives", dtype="float64")
    points, proxies = (x / np.linalg.norm(x, axis=1, keepdims=True) for x in (embeddings, loss.get_weights()[0]))
    classes, terms = np.repeat(np.arange(6), proxies_per_class), []
    for point, label in zip(points, labels):
        shares = np.exp(-np.sum((point - proxies) ** 2, axis=1))
        terms.append(-np.log(shares[classes == label].sum() / shares[classes != label].sum()))
    np.testing.assert_allclose(loss(embeddings, labels), np.mean(terms), rtol=1e-12)


def test_as_printed_a_sample_without_another_class_is_left_out():
    rng = np.random.default_rng(1)
    loss = ProxyNCALoss(3, 3, denominator="negatives")
    references = References(rng.normal(size=(2, 3)), np.array([1, 1]))
    assert loss(rng.normal(size=(4, 3)), np.array([1, 0, 1, 2]), references) == 0


def test_a_sample_without_a_reference_of_its_class_is_left_out():
    rng = np.random.default_rng(1)
    embeddings, labels = rng.normal(size=(5, 3)), np.array([0, 1, 1, 0, 7])
    references = References(rng.normal(size=(4, 3)), np.array([0, 1, 2, 0]))
    loss = ProxyNCALoss(3, 3)
    alone = loss(embeddings[:4], labels[:4], references)
    np.testing.assert_allclose(loss(embeddings, labels, references), alone, rtol=1e-6)


def test_the_temperature_is_that_of_the_published_code():
    assert ProxyNCALoss(4, 2).temperature == 0.11
