import math

import numpy as np
import pytest
import tensorflow as tf
from scipy.spatial.distance import pdist, squareform

from common.losses import CodingRateLoss, KoLeoLoss, ThresholdConsistentMarginLoss, coding_rate, koleo

EXACT = {"rtol": 1e-12, "atol": 1e-14}


def vectors(case):
    """The normalised embeddings of the batch; the references are no part of it."""
    return [vector for vector, *_ in case.anchors()]


def test_koleo_is_of_the_distances_to_the_nearest(case):
    distances = squareform(pdist(vectors(case)))
    np.fill_diagonal(distances, np.inf)
    loss = KoLeoLoss(normalization=case.normalization, dtype="float64")
    np.testing.assert_allclose(case(loss), -np.log(distances.min(axis=1)).mean(), **EXACT)


def test_coding_rate_is_the_log_determinant_of_the_gram_matrix(case):
    points = np.array(vectors(case))
    matrix = np.eye(len(points)) + 2 / (len(points) * 0.3**2) * points @ points.T
    loss = CodingRateLoss(0.3, normalization=case.normalization, dtype="float64")
    np.testing.assert_allclose(case(loss), -np.linalg.slogdet(matrix)[1] / 2, **EXACT)


@pytest.mark.parametrize("margins", [(0.9, 0.5), (0.2, -0.3), (-9.0, 9.0)])
def test_threshold_consistent_margin_equals_loops(case, loops, margins):
    missing, excess = [], []
    for anchor, positives, negatives in case.anchors():
        missing += [margins[0] - loops.inner_product(anchor, other) for other in positives]
        excess += [loops.inner_product(anchor, other) - margins[1] for other in negatives]
    expected = sum(loops.mean([gap for gap in gaps if gap >= 0]) for gaps in (missing, excess))
    loss = ThresholdConsistentMarginLoss(*margins, normalization=case.normalization, dtype="float64")
    np.testing.assert_allclose(case(loss), expected, **EXACT)


def test_koleo_needs_two_embeddings_and_bounds_the_distance_of_equal_ones():
    assert float(koleo(tf.ones([1, 3]))) == 0.0
    np.testing.assert_allclose(koleo(tf.ones([2, 3], tf.float64)), -math.log(1e-8))
    np.testing.assert_allclose(koleo(tf.constant([[1e-3, 1.0], [-1e-3, 1.0]])), -math.log(2e-3), rtol=1e-6)


def test_coding_rate_of_axes_is_the_sum_of_their_rates_and_falls_in_a_collapse():
    np.testing.assert_allclose(coding_rate(tf.eye(4), 0.1), 2 * math.log(1 + 100), rtol=1e-6)
    np.testing.assert_allclose(coding_rate(tf.eye(1, 4) + tf.zeros([4, 1]), 0.1), math.log(1 + 400) / 2, rtol=1e-6)
    assert float(coding_rate(1e-9 * tf.eye(4), 1e-3)) < 1e-9  # no direction counts
