import math

import numpy as np
import pytest
import tensorflow as tf
from scipy import stats

from common.errors import InvalidInput
from common.miners import distance_weighted, log_inverse_density
from common.references import References


def density(distance, dim):
    """q(d) up to a constant, as printed."""
    return distance ** (dim - 2) * (1.0 - distance**2 / 4.0) ** ((dim - 3) / 2.0)


@pytest.mark.parametrize(("dim", "cutoff"), [(4, 0.5), (8, 0.5), (16, 1.0)])
def test_frequencies_match_the_inverse_density(dim, cutoff):
    angles = np.radians([10.0, 20.0, 40.0, 55.0, 70.0, 85.0, 90.0, 100.0, 120.0])
    negatives = np.zeros((len(angles), dim))
    negatives[:, 0], negatives[:, 1] = np.cos(angles), np.sin(angles)
    num_draws = 20_000
    anchors = np.zeros((num_draws, dim))
    anchors[:, 0] = 3.0  # directions are what counts
    references = References(np.concatenate([negatives, anchors[:1]]), np.array([1] * len(angles) + [0]))
    triplets = distance_weighted(tf.constant(anchors), np.zeros(num_draws, int), (0, 3), references, cutoff=cutoff)
    counts = np.bincount(triplets.negatives, minlength=len(angles))
    weights = np.array([1.0 / density(max(2.0 * math.sin(angle / 2.0), cutoff), dim) for angle in angles])
    expected = num_draws * weights / weights.sum()
    frequent = expected > 5  # the test's own condition
    assert frequent.sum() >= 3
    pooled = [np.append(x[frequent], x[~frequent].sum() + 1e-9) for x in (counts, expected)]
    assert stats.chisquare(*pooled, sum_check=False).pvalue > 0.001
    assert stats.chisquare(counts).pvalue < 1e-9  # the same test refuses equal chances


def test_the_density_is_that_of_distances_on_the_sphere():
    rng = np.random.default_rng(0)
    points = rng.normal(size=(40_000, 5))
    points /= np.linalg.norm(points, axis=1, keepdims=True)
    distances = np.linalg.norm(points[1:] - points[:1], axis=1)
    edges = np.linspace(0.4, 2.0, 17)
    middles = (edges[1:] + edges[:-1]) / 2
    inverse = np.exp(log_inverse_density(middles, 5, cutoff=0.01))
    flattened = np.histogram(distances, edges)[0] * inverse
    np.testing.assert_allclose(flattened / flattened.mean(), 1.0, atol=0.2)


@pytest.mark.parametrize("dim", [128, 2048])
def test_many_dimensions_stay_finite_in_log_space(dim):
    distances = tf.constant([0.0, 0.5, 1.0, 1.4, 1.9, 2.0])
    weights = log_inverse_density(distances, dim).numpy()
    assert np.isfinite(weights).all()
    assert weights[0] == weights[1] > weights[2] > weights[3]
    assert weights[5] > weights[0] > weights[4]  # not clipped at large distances, as in the dissertation's code


def test_a_cutoff_beyond_the_mode_is_refused():
    with pytest.raises(InvalidInput, match="cutoff: received 1.5, expected a distance in"):
        distance_weighted(tf.ones([2, 2]), np.array([0, 1]), (0, 0), cutoff=1.5)
