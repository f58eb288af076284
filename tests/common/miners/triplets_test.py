import functools
import math

import numpy as np
import pytest
import tensorflow as tf
from scipy import stats

from common.miners import (
    Triplets,
    batch_hard,
    distance_weighted,
    inter_class,
    intra_class,
    log_inverse_density,
    pairs_of,
    random_triplets,
    semi_hard,
    soft_hard,
)
from common.miners.triplets import draw
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


MODES = [
    {},
    {"negatives": "random"},
    {"negatives": "semi_hard"},
    {"positives": "distance"},
    {"positives": "nearest"},
]


def inter_class_random_batch(seed=0, size=24, dim=5):
    return tf.constant(np.random.default_rng(seed).normal(size=(size, dim)), tf.float32), np.arange(size) % 5


@pytest.mark.parametrize("mode", MODES, ids=str)
def test_all_three_classes_differ(mode):
    embeddings, labels = inter_class_random_batch()
    references = References(*inter_class_random_batch(1, 30), np.arange(30) % 7 != 0)
    for given, other_labels in ((None, labels), (references, references.labels)):
        for seed in range(5):
            anchors, positives, negatives = (
                part.numpy() for part in inter_class(embeddings, labels, (2, seed), given, **mode)
            )
            np.testing.assert_array_equal(anchors, np.arange(24))
            assert (labels[anchors] != other_labels[positives]).all()
            assert (labels[anchors] != other_labels[negatives]).all()
            assert (other_labels[positives] != other_labels[negatives]).all()
            assert given is None or ((positives % 7 != 0).all() and (negatives % 7 != 0).all())


@pytest.mark.parametrize("mode", MODES, ids=str)
@pytest.mark.parametrize("labels", [[], [0, 0, 0, 0], [0, 0, 1, 1]])
def test_fewer_than_three_classes_have_no_triplet(mode, labels):
    embeddings = inter_class_random_batch(size=len(labels))[0]
    assert len(inter_class(embeddings, np.array(labels, int), (0, 0), **mode).anchors) == 0


def circle(angles, dim):
    points = np.zeros((len(angles), dim))
    points[:, 0], points[:, 1] = np.cos(np.radians(angles)), np.sin(np.radians(angles))
    return points


@pytest.mark.parametrize("cutoff", [0.5, 1.0])
def test_frequencies_of_negatives_and_of_positives_given_them(cutoff):
    dim, num_draws, angles = 6, 20_000, [20.0, 40.0, 55.0, 70.0, 90.0, 100.0]
    classes = np.array([1, 1, 2, 2, 3, 3])
    anchors = circle(np.zeros(num_draws), dim)
    references = References(circle(angles, dim), classes)
    triplets = inter_class(tf.constant(anchors), np.zeros(num_draws, int), (0, 3), references, cutoff=cutoff)
    weights = np.array([1.0 / density(max(2.0 * math.sin(math.radians(a) / 2.0), cutoff), dim) for a in angles])
    counts = np.bincount(triplets.negatives, minlength=6)
    assert stats.chisquare(counts, num_draws * weights / weights.sum(), sum_check=False).pvalue > 0.001
    assert stats.chisquare(counts).pvalue < 1e-9  # the same test refuses equal chances
    positives, negatives = triplets.positives.numpy(), triplets.negatives.numpy()
    for negative in range(6):
        allowed = np.flatnonzero(classes != classes[negative])
        given = np.bincount(positives[negatives == negative], minlength=6)
        assert given[classes == classes[negative]].sum() == 0
        assert stats.chisquare(given[allowed]).pvalue > 0.001


def test_nearest_positives_are_the_nearest_of_the_classes_that_are_left():
    embeddings, labels = inter_class_random_batch()
    points = embeddings.numpy() / np.linalg.norm(embeddings.numpy(), axis=1, keepdims=True)
    distances = np.linalg.norm(points[:, None] - points, axis=-1)
    for seed in range(3):
        triplets = inter_class(embeddings, labels, (0, seed), positives="nearest")
        for a, p, n in zip(*(part.numpy() for part in triplets)):
            left = np.flatnonzero((labels != labels[a]) & (labels != labels[n]))
            assert p == left[np.argmin(distances[a][left])]


def test_semi_hard_negatives_are_beyond_the_positive_where_there_are_such():
    embeddings, labels = inter_class_random_batch(size=60)
    points = embeddings.numpy() / np.linalg.norm(embeddings.numpy(), axis=1, keepdims=True)
    distances, num_between = np.linalg.norm(points[:, None] - points, axis=-1), 0
    for a, p, n in zip(*(part.numpy() for part in inter_class(embeddings, labels, (0, 1), negatives="semi_hard"))):
        left = distances[a][(labels != labels[a]) & (labels != labels[p])]
        if ((left > distances[a, p]) & (left < distances[a, p] + 0.2)).any():
            assert distances[a, p] < distances[a, n] < distances[a, p] + 0.2
            num_between += 1
    assert num_between > 20


DRAWING = [random_triplets, semi_hard, soft_hard, distance_weighted]


def triplets_random_batch(seed=0, size=32, dim=8):
    rng = np.random.default_rng(seed)
    return tf.constant(rng.normal(size=(size, dim)), tf.float32), rng.integers(0, 6, size)


@pytest.fixture(params=[*DRAWING, batch_hard], ids=lambda miner: miner.__name__)
def miner(request):
    return request.param


def test_triplets_are_of_an_anchor_a_positive_and_a_negative(miner):
    embeddings, labels = triplets_random_batch()
    references = References(*triplets_random_batch(1, 50), np.arange(50) % 7 != 0)
    for given, other_labels in ((None, labels), (references, references.labels)):
        for seed in range(5):
            anchors, positives, negatives = (part.numpy() for part in miner(embeddings, labels, (3, seed), given))
            assert len(anchors) > 10
            assert (np.diff(anchors) > 0).all()
            assert (labels[anchors] == other_labels[positives]).all()
            assert (labels[anchors] != other_labels[negatives]).all()
            if given is None:
                assert (anchors != positives).all()
            else:
                assert (positives % 7 != 0).all()
                assert (negatives % 7 != 0).all()


def test_anchors_without_a_partner_are_left_out(miner):
    embeddings, _ = triplets_random_batch(size=4)
    for labels in ([0, 0, 0, 0], [0, 1, 2, 3]):
        assert len(miner(embeddings, np.array(labels), (0, 0)).anchors) == 0
    assert set(random_triplets(embeddings, np.array([0, 0, 1, 2]), (0, 0)).anchors.numpy()) == {0, 1}


@pytest.mark.parametrize(
    "miner", [*DRAWING, batch_hard, intra_class, *(functools.partial(inter_class, **mode) for mode in MODES)]
)
def test_a_compiled_function_draws_the_same_and_another_seed_others(miner):
    embeddings, labels = triplets_random_batch()
    compiled = tf.function(lambda step: miner(embeddings, labels, tf.stack([0, step])))
    drawn = [np.stack(miner(embeddings, labels, (0, step))) for step in (1, 2)]
    for step, expected in enumerate(drawn, 1):
        np.testing.assert_array_equal(compiled(tf.constant(step)), expected)
    assert miner is batch_hard or not np.array_equal(*drawn)


@pytest.mark.parametrize("weights", [[1.0, 1.0, 1.0, 1.0], [0.1, 0.2, 0.3, 0.4], [1e-30, 1e-31, 3e-30, 6e-30]])
def test_frequencies_match_the_weights(weights):
    num_draws = 20_000
    log_weights = tf.tile(tf.math.log(tf.constant([[*weights, 5.0]])), [num_draws, 1])
    mask = tf.tile([[True] * 4 + [False]], [num_draws, 1])
    counts = np.bincount(draw(mask, (0, 1), 0, log_weights), minlength=5)
    assert counts[4] == 0
    expected = num_draws * np.array(weights) / np.sum(weights)
    assert stats.chisquare(counts[:4], expected, sum_check=False).pvalue > 0.01


def test_pairs_of_triplets_are_their_masks():
    triplets = Triplets(*(tf.constant(part, tf.int64) for part in ([0, 2], [1, 1], [3, 0])))
    positive, negative = pairs_of(triplets, 3, 4)
    np.testing.assert_array_equal(positive, [[0, 1, 0, 0], [0, 0, 0, 0], [0, 1, 0, 0]])
    np.testing.assert_array_equal(negative, [[0, 0, 0, 1], [0, 0, 0, 0], [1, 0, 0, 0]])
