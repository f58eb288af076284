import numpy as np

from common.losses import ContrastiveLoss, MultiSimilarityLoss, WeightedSumLoss


def test_is_the_weighted_sum_of_its_parts(case):
    parts = [ContrastiveLoss(normalization=case.normalization), MultiSimilarityLoss(normalization=case.normalization)]
    expected = 0.7 * case(parts[0]) + 0.2 * case(parts[1])
    np.testing.assert_allclose(case(WeightedSumLoss(parts, [0.7, 0.2])), expected, rtol=1e-12)
    np.testing.assert_allclose(case(WeightedSumLoss(parts)), case(parts[0]) + case(parts[1]), rtol=1e-12)
