import math

import numpy as np
import pytest

from common.losses import ProxyAnchorLoss


@pytest.mark.parametrize(("margin", "scale"), [(0.1, 32.0), (0.3, 5.0)])
def test_equals_loops_over_given_references_or_its_own_proxies(case, loops, margin, scale):
    loss = ProxyAnchorLoss(4, 2, proxies_per_class=2, margin=margin, scale=scale, normalization=case.normalization)
    pull, push = [], []
    for proxy, positives, negatives in case.anchors("references", case.references or loss.proxy_bank.references()):
        near = [math.exp(scale * (margin - loops.inner_product(proxy, x))) for x in positives]
        far = [math.exp(scale * (margin + loops.inner_product(proxy, x))) for x in negatives]
        pull += [math.log1p(sum(near))] if positives else []
        push += [math.log1p(sum(far))] if negatives else []
    np.testing.assert_allclose(case(loss), loops.mean(pull) + loops.mean(push), rtol=2e-5)


def test_batch_of_one_class_divides_by_the_proxies_that_have_negatives():
    loss = ProxyAnchorLoss(2, 2, margin=0.0, scale=1.0, normalization="none")
    loss.proxy_bank.proxies.assign([[1.0, 0.0], [0.0, 1.0]])
    # The proxy of class 0 has one positive at similarity 2, the one of class 1 one negative at similarity 3.
    expected = math.log1p(math.exp(-2.0)) + math.log1p(math.exp(3.0))
    np.testing.assert_allclose(loss(np.array([[2.0, 3.0]]), np.array([0])), expected, rtol=1e-6)
