import math

import numpy as np
import pytest

from common.losses import MultiSimilarityLoss


@pytest.mark.parametrize("anchors", ["embeddings", "references"])
@pytest.mark.parametrize(("alpha", "beta", "threshold"), [(2.0, 40.0, 0.5), (14.35, 75.83, 0.66)])
def test_equals_loops(case, loops, alpha, beta, threshold, anchors):
    terms = []
    for anchor, positives, negatives in case.anchors(anchors):
        pull = sum(math.exp(alpha * (threshold - loops.inner_product(anchor, p))) for p in positives)
        push = sum(math.exp(beta * (loops.inner_product(anchor, n) - threshold)) for n in negatives)
        terms.append(math.log1p(pull) / alpha + math.log1p(push) / beta)
    loss = MultiSimilarityLoss(alpha, beta, threshold, anchors, normalization=case.normalization)
    np.testing.assert_allclose(case(loss), loops.mean(terms), rtol=1e-12)


@pytest.mark.parametrize("anchors", ["embeddings", "references"])
def test_mean_of_active_equals_loops(case, loops, anchors):
    alpha, beta, threshold, terms = 3.0, 20.0, 0.4, []
    for anchor, positives, negatives in case.anchors(anchors):
        pull = [math.exp(alpha * (threshold - loops.inner_product(anchor, p))) for p in positives]
        push = [math.exp(beta * (loops.inner_product(anchor, n) - threshold)) for n in negatives]
        sides = [sum(side) / max(1, sum(term > 1 for term in side)) for side in (pull, push)]
        terms.append(math.log1p(sides[0]) / alpha + math.log1p(sides[1]) / beta)
    loss = MultiSimilarityLoss(alpha, beta, threshold, anchors, "mean_of_active", normalization=case.normalization)
    np.testing.assert_allclose(case(loss), loops.mean(terms), rtol=1e-12)


def test_large_similarities_do_not_overflow():
    loss = MultiSimilarityLoss(negative_scale=100.0, normalization="none")(np.full((2, 1), 10.0), np.array([0, 1]))
    np.testing.assert_allclose(loss, 100.0 - 0.5, rtol=1e-6)  # (1/β) log(1 + e^{β (100 - .5)})
