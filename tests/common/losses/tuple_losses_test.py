"""Losses that compare more than two embeddings in a term, recomputed by loops."""

import math

import numpy as np
import pytest
import tensorflow as tf

from common.errors import InvalidInput
from common.losses import AngularLoss, HistogramLoss, HyperbolicLoss, LiftedStructureLoss, QuadrupletLoss, TripletLoss
from common.losses.lifted_structure import lifted_structure
from common.losses.quadruplet import active_quadruplet_counts
from tests.support import poincare_ball


@pytest.mark.parametrize("anchors", ["embeddings", "references"])
@pytest.mark.parametrize("angle", [36.0, 45.0, 60.0])
def test_angular_equals_loops(case, loops, angle, anchors):
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
def test_histogram_equals_loops(case, loops, num_nodes):
    near, far = [], []
    for anchor, positives, negatives in case.anchors():
        near += [loops.inner_product(anchor, p) for p in positives]
        far += [loops.inner_product(anchor, n) for n in negatives]
    of_positives, of_negatives = (histogram(values, num_nodes) for values in (near, far))
    expected = sum(of_negatives[r] * sum(of_positives[: r + 1]) for r in range(num_nodes))
    loss = HistogramLoss(num_nodes, normalization=case.normalization)
    np.testing.assert_allclose(case(loss), expected, rtol=1e-12)


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


@pytest.mark.parametrize("anchors", ["embeddings", "references"])
@pytest.mark.parametrize("margin", [0.3, 1.0])
def test_the_generalized_loss_equals_loops(case, loops, margin, anchors):
    terms = []
    for anchor, positives, negatives in case.anchors(anchors):
        if positives and negatives:
            pull = math.log(sum(math.exp(loops.distance(anchor, p)) for p in positives))
            push = math.log(sum(math.exp(margin - loops.distance(anchor, n)) for n in negatives))
            terms.append(max(0.0, pull + push))
    loss = LiftedStructureLoss(margin, generalized=True, anchors=anchors, normalization=case.normalization)
    np.testing.assert_allclose(case(loss), loops.mean(terms), rtol=1e-12)


@pytest.mark.parametrize("margin", [0.3, 1.0])
def test_the_printed_loss_equals_loops(case, loops, margin):
    batch, others, terms = case.batch(), case.others(), []
    for i, (anchor, label) in enumerate(batch):
        for j, (positive, other_label) in enumerate(others):
            if other_label != label or (case.references is None and i == j):
                continue
            sums = [math.exp(margin - loops.distance(anchor, n)) for n, negative in others if negative != label]
            sums += [math.exp(margin - loops.distance(positive, n)) for n, negative in batch if negative != label]
            if sums:
                terms.append(0.5 * max(0.0, math.log(sum(sums)) + loops.distance(anchor, positive)) ** 2)
    loss = LiftedStructureLoss(margin, normalization=case.normalization)
    np.testing.assert_allclose(case(loss), loops.mean(terms), rtol=1e-12)


@pytest.mark.parametrize("seed", range(3))
def test_the_printed_loss_equals_tensorflow_addons(seed):
    tfa = pytest.importorskip("tensorflow_addons", reason="tensorflow-addons needs the thesis stack")
    embeddings = tf.constant(np.random.default_rng(seed).normal(size=(12, 4)), tf.float32)
    labels = tf.repeat(tf.range(4), 3)
    expected = tfa.losses.lifted_struct_loss(labels, embeddings, margin=1.0)
    np.testing.assert_allclose(LiftedStructureLoss(1.0, normalization="none")(embeddings, labels), expected, rtol=1e-4)


def test_a_pair_without_negatives_does_not_count():
    distances = tf.constant([[0.5, 0.25], [1.0, 0.75]])
    positive, negative = tf.constant([[True, False], [True, False]]), tf.constant([[False, False], [False, True]])
    # The second anchor alone has a negative; it is none of the positive's.
    expected = 0.5 * (1.0 - 0.75 + 1.0) ** 2
    np.testing.assert_allclose(lifted_structure(distances, positive, negative, 1.0), expected, rtol=1e-6)


@pytest.mark.parametrize("margins", [(0.2, 0.2), (0.0, 0.7), (0.4, 2.5)])
def test_quadruplet_equals_loops(case, loops, margins):
    pairs = [
        (loops.distance(x, y), label, other)
        for i, (x, label) in enumerate(case.batch())
        for j, (y, other) in enumerate(case.others())
        if case.references is not None or i != j
    ]
    terms = [
        near - far + margins[1]
        for near, label, other in pairs
        if label == other
        for far, first, second in pairs
        if len({first, second, label}) == 3
    ]
    triplets = case(TripletLoss(margins[0], normalization=case.normalization))
    loss = QuadrupletLoss(*margins, normalization=case.normalization)
    np.testing.assert_allclose(case(loss), triplets + loops.mean_of_nonzero(terms), rtol=1e-12)


def test_references_as_anchors_swap_the_sides(case):
    losses = [QuadrupletLoss(0.0, 0.3, role, normalization=case.normalization) for role in ("embeddings", "references")]
    triplets = [TripletLoss(0.0, role, normalization=case.normalization) for role in ("embeddings", "references")]
    second_terms = [case(loss) - case(triplet) for loss, triplet in zip(losses, triplets)]
    np.testing.assert_allclose(*second_terms, rtol=1e-5)  # the second term is the same from either side


@pytest.mark.parametrize("seed", range(3))
def test_counts_equal_those_of_all_pairs_of_pairs(seed):
    rng = np.random.default_rng(seed)
    rows, columns = rng.integers(0, 4, 7), rng.integers(0, 5, 9)
    distances = np.round(rng.uniform(0.0, 2.0, (7, 9)), 1) + 0.03 * (rows[:, None] == columns)  # ties, none on the edge
    takes_part = rng.uniform(size=distances.shape) < 0.8
    same = rows[:, None] == columns
    counts = active_quadruplet_counts(
        tf.constant(distances), same & takes_part, ~same & takes_part, tf.constant(rows), tf.constant(columns), 0.5
    )
    expected = np.zeros(distances.shape, int)
    for a, p in np.argwhere(same & takes_part):
        for k, n in np.argwhere(~same & takes_part):
            if rows[a] not in (rows[k], columns[n]) and distances[a, p] + 0.5 > distances[k, n]:
                expected[a, p] += 1
                expected[k, n] -= 1
    np.testing.assert_array_equal(counts, expected)
