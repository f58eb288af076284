import math

import numpy as np
import pytest

from common.losses import HistogramLoss


def histogram(similarities, num_nodes):
    """Shares at the nodes, value by value."""
    shares, step = [0.0] * num_nodes, 2.0 / (num_nodes - 1)
    for similarity in similarities:
        place = (min(max(similarity, -1.0), 1.0) + 1.0) / step
        lower = min(math.floor(place), num_nodes - 2)
        shares[lower] += (1.0 - (place - lower)) / len(similarities)
        shares[lower + 1] += (place - lower) / len(similarities)
    return shares


@pytest.mark.parametrize("num_nodes", [2, 11, 65])
def test_equals_loops(case, loops, num_nodes):
    near, far = [], []
    for anchor, positives, negatives in case.anchors():
        near += [loops.inner_product(anchor, p) for p in positives]
        far += [loops.inner_product(anchor, n) for n in negatives]
    of_positives, of_negatives = (histogram(values, num_nodes) for values in (near, far))
    expected = sum(of_negatives[r] * sum(of_positives[: r + 1]) for r in range(num_nodes))
    loss = HistogramLoss(num_nodes, normalization=case.normalization)
    np.testing.assert_allclose(case(loss), expected, rtol=1e-12)


def test_separated_classes_cost_nothing_and_reversed_ones_everything():
    embeddings = np.array([[1.0, 0.0], [1.0, 0.0], [-1.0, 0.0], [-1.0, 0.0]])
    assert float(HistogramLoss(11)(embeddings, np.array([0, 0, 1, 1]))) == 0.0
    assert float(HistogramLoss(11)(embeddings[:3], np.array([0, 1, 0]))) == 1.0
    assert float(HistogramLoss(11)(embeddings[[0, 2]], np.array([0, 0]))) == 0.0  # no negatives
