import numpy as np
import pytest
import tensorflow as tf
from scipy import stats

from common.errors import InvalidInput
from common.miners import Triplets, rho_regularized

NUM = 10_000
TRIPLETS = Triplets(*(tf.range(NUM, dtype=tf.int64) + offset for offset in (0, 20_000, 40_000)))


@pytest.mark.parametrize("rho_probability", [0.0, 0.15, 0.35, 1.0])
def test_so_many_are_switched_and_the_others_stay(rho_probability):
    anchors, positives, negatives = (part.numpy() for part in rho_regularized(TRIPLETS, rho_probability, (0, 1), NUM))
    np.testing.assert_array_equal(anchors, TRIPLETS.anchors)
    chosen = positives == anchors
    np.testing.assert_array_equal(negatives[chosen], TRIPLETS.positives.numpy()[chosen])
    np.testing.assert_array_equal(positives[~chosen], TRIPLETS.positives.numpy()[~chosen])
    np.testing.assert_array_equal(negatives[~chosen], TRIPLETS.negatives.numpy()[~chosen])
    if rho_probability in (0.0, 1.0):
        assert chosen.mean() == rho_probability
    else:
        assert stats.binomtest(int(chosen.sum()), NUM, rho_probability).pvalue > 0.01


def test_the_anchor_is_found_behind_the_references():
    behind = rho_regularized(TRIPLETS, 1.0, (0, 1), NUM, first_self=77).positives - TRIPLETS.anchors
    assert set(behind.numpy()) == {77}


def test_a_probability_above_one_is_refused():
    with pytest.raises(InvalidInput, match=r"rho_probability: received 1.1, expected a number in \[0, 1\]"):
        rho_regularized(TRIPLETS, 1.1, (0, 0), NUM)
