import math

import numpy as np
import pytest

from common.losses import AngularLoss


@pytest.mark.parametrize("anchors", ["embeddings", "references"])
@pytest.mark.parametrize("angle", [36.0, 45.0, 60.0])
def test_equals_loops(case, loops, angle, anchors):
    loss = AngularLoss(angle, anchors, normalization=case.normalization)
    case.normalization = "unit"  # whatever the loss is told
    tangent, terms = math.tan(math.radians(angle)) ** 2, []
    for anchor, positives, negatives in case.anchors(anchors):
        for positive in positives if negatives else []:
            middle = [a + p for a, p in zip(anchor, positive)]
            pull = 2.0 * (1.0 + tangent) * loops.inner_product(anchor, positive)
            pushes = [math.exp(4.0 * tangent * loops.inner_product(middle, n) - pull) for n in negatives]
            terms.append(math.log1p(sum(pushes)))
    np.testing.assert_allclose(case(loss), loops.mean(terms), rtol=1e-12)


@pytest.mark.parametrize("unlike", [1.0, -1.0])
def test_the_widest_angle_stays_within_float32(unlike):
    embeddings = np.array([[1.0, 0.0], [1.0, 0.0], [unlike, 1e-3], [unlike, -1e-3]], np.float32)
    loss = AngularLoss(60.0)(embeddings, np.array([0, 0, 1, 1]))
    np.testing.assert_allclose(loss, math.log1p(2.0 * math.exp(24.0 * unlike - 8.0)), rtol=1e-3)


def test_pairs_without_negatives_do_not_count():
    assert float(AngularLoss()(np.array([[1.0, 0.0], [0.6, 0.8], [0.0, 1.0]]), np.zeros(3, int))) == 0.0
