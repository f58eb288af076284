import math

import numpy as np
import pytest

from common.errors import InvalidInput
from common.losses import HyperbolicLoss
from tests.support import poincare_ball

CURVATURE, RADIUS, TEMPERATURE = 0.5, 1.7, 0.3


@pytest.mark.parametrize("anchors", ["embeddings", "references"])
def test_is_the_cross_entropy_of_each_positive_pair(case, loops, anchors):
    def distance(x, y):
        return float(poincare_ball.distance(RADIUS * np.array(x), RADIUS * np.array(y), CURVATURE))

    terms = []
    for anchor, positives, negatives in case.anchors(anchors):
        others = sum(math.exp(-distance(anchor, each) / TEMPERATURE) for each in negatives)
        own = [math.exp(-distance(anchor, each) / TEMPERATURE) for each in positives]
        terms += [-math.log(each / (each + others)) for each in own if negatives]
    loss = HyperbolicLoss(CURVATURE, RADIUS, TEMPERATURE, anchors, normalization=case.normalization)
    assert case(loss) == pytest.approx(loops.mean(terms), rel=1e-5)


def test_a_radius_whose_distances_overflow_is_refused():
    with pytest.raises(InvalidInput, match="radius: received 21.0, expected at most 20 with curvature=1"):
        HyperbolicLoss(1.0, 21.0)
    apart = HyperbolicLoss(1.0, 20.0, normalization="unit")(np.float32([[1, 0], [1, 0], [-1, 0]]), [0, 0, 1])
    assert np.isfinite(apart)
