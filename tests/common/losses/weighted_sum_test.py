import numpy as np
import pytest

from common.errors import InvalidInput
from common.losses import (
    ContrastiveLoss,
    CrossBatchMemoryLoss,
    MinedLoss,
    MultiSimilarityLoss,
    TripletLoss,
    WeightedSumLoss,
)


def test_is_the_weighted_sum_of_its_parts(case):
    parts = [ContrastiveLoss(normalization=case.normalization), MultiSimilarityLoss(normalization=case.normalization)]
    expected = 0.7 * case(parts[0]) + 0.2 * case(parts[1])
    np.testing.assert_allclose(case(WeightedSumLoss(parts, [0.7, 0.2])), expected, rtol=1e-6)
    np.testing.assert_allclose(case(WeightedSumLoss(parts)), case(parts[0]) + case(parts[1]), rtol=1e-6)


def test_weights_that_do_not_fit_are_refused():
    with pytest.raises(InvalidInput, match="Invalid weights.*one number for each of 1 losses"):
        WeightedSumLoss([ContrastiveLoss()], [1.0, 2.0])


def test_losses_around_losses_tell_how_those_normalise():
    clipped = WeightedSumLoss([ContrastiveLoss(normalization="clip"), TripletLoss(normalization="clip")])
    for loss in (clipped, MinedLoss(clipped), CrossBatchMemoryLoss(clipped, 8, 2)):
        assert loss.normalization == "clip"
        assert type(loss).from_config(loss.get_config()).normalization == "clip"
    assert WeightedSumLoss([ContrastiveLoss(normalization="clip"), TripletLoss()]).normalization == "none"
