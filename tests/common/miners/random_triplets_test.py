import numpy as np
import tensorflow as tf
from scipy import stats

from common.miners import random_triplets
from common.references import References


def test_all_positives_and_negatives_have_equal_chances():
    num_draws = 12_000
    anchors, references = (
        np.ones((num_draws, 2)),
        References(np.random.default_rng(0).normal(size=(7, 2)), [0] * 3 + [1] * 4),
    )
    triplets = random_triplets(tf.constant(anchors), np.zeros(num_draws, int), (0, 0), references)
    for drawn, choices in ((triplets.positives, range(3)), (triplets.negatives, range(3, 7))):
        counts = np.bincount(drawn, minlength=7)
        assert counts[list(choices)].sum() == num_draws
        assert stats.chisquare(counts[list(choices)]).pvalue > 0.01
    paired = np.bincount(4 * triplets.positives + triplets.negatives - 3, minlength=12)
    assert stats.chisquare(paired).pvalue > 0.01  # independent of each other
