import numpy as np
import pytest

from common.losses import CosineContrastive


@pytest.mark.parametrize("margin", [0.5, -0.2])
def test_equals_loops(case, loops, margin):
    total, num_anchors = 0.0, 0
    for anchor, positives, negatives in case.anchors():
        total += sum(max(0.0, 1.0 - loops.inner_product(anchor, p) - 1e-5) for p in positives)
        total += sum(max(0.0, loops.inner_product(anchor, n) - margin) for n in negatives)
        num_anchors += 1
    loss = CosineContrastive(margin, normalization=case.normalization)
    np.testing.assert_allclose(case(loss), total / num_anchors, rtol=1e-5)


def test_a_self_match_costs_nothing():
    assert CosineContrastive()(np.array([[0.6, 0.8], [0.6, 0.8]]), np.array([1, 1])) == 0.0
