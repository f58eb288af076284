"""Losses over pairs of one kind at a time, recomputed by loops."""

import math

import numpy as np
import pytest
import tensorflow as tf

from common.losses import (
    AngularLoss,
    CircleLoss,
    ContrastiveLoss,
    CosineContrastiveLoss,
    LiftedStructureLoss,
    MarginLoss,
    MultiSimilarityLoss,
    NPairLoss,
    SignalToNoiseLoss,
    SupervisedContrastiveLoss,
)
from common.references import References


@pytest.mark.parametrize(("positive_margin", "negative_margin"), [(0.0, 0.3841), (0.2652, 0.5409), (0.3, 1.4)])
def test_contrastive_equals_loops(case, loops, positive_margin, negative_margin):
    too_far, too_close = [], []
    for anchor, positives, negatives in case.anchors():
        too_far += [max(0.0, loops.distance(anchor, p) - positive_margin) for p in positives]
        too_close += [max(0.0, negative_margin - loops.distance(anchor, n)) for n in negatives]
    expected = loops.mean_of_nonzero(too_far) + loops.mean_of_nonzero(too_close)
    loss = ContrastiveLoss(positive_margin, negative_margin, normalization=case.normalization)
    np.testing.assert_allclose(case(loss), expected, rtol=1e-12)


@pytest.mark.parametrize("margin", [0.5, -0.2])
def test_cosine_contrastive_equals_loops(case, loops, margin):
    total, num_anchors = 0.0, 0
    for anchor, positives, negatives in case.anchors():
        total += sum(max(0.0, 1.0 - loops.inner_product(anchor, p) - 1e-5) for p in positives)
        total += sum(max(0.0, loops.inner_product(anchor, n) - margin) for n in negatives)
        num_anchors += 1
    loss = CosineContrastiveLoss(margin, normalization=case.normalization)
    np.testing.assert_allclose(case(loss), total / num_anchors, rtol=1e-12)


def test_cosine_contrastive_mean_of_active_equals_loops(case, loops):
    terms = []
    for anchor, positives, negatives in case.anchors():
        pull = [1.0 - loops.inner_product(anchor, p) - 1e-5 for p in positives]
        push = [loops.inner_product(anchor, n) + 0.2 for n in negatives]
        terms.append(sum(loops.mean([term for term in side if term > 0]) for side in (pull, push)))
    loss = CosineContrastiveLoss(-0.2, "mean_of_active", normalization=case.normalization)
    np.testing.assert_allclose(case(loss), sum(terms) / len(terms), rtol=1e-12)


@pytest.mark.parametrize("anchors", ["embeddings", "references"])
@pytest.mark.parametrize(("alpha", "beta", "threshold"), [(2.0, 40.0, 0.5), (14.35, 75.83, 0.66)])
def test_multi_similarity_equals_loops(case, loops, alpha, beta, threshold, anchors):
    terms = []
    for anchor, positives, negatives in case.anchors(anchors):
        pull = sum(math.exp(alpha * (threshold - loops.inner_product(anchor, p))) for p in positives)
        push = sum(math.exp(beta * (loops.inner_product(anchor, n) - threshold)) for n in negatives)
        terms.append(math.log1p(pull) / alpha + math.log1p(push) / beta)
    loss = MultiSimilarityLoss(alpha, beta, threshold, anchors, normalization=case.normalization)
    np.testing.assert_allclose(case(loss), loops.mean(terms), rtol=1e-12)


@pytest.mark.parametrize("anchors", ["embeddings", "references"])
def test_multi_similarity_mean_of_active_equals_loops(case, loops, anchors):
    alpha, beta, threshold, terms = 3.0, 20.0, 0.4, []
    for anchor, positives, negatives in case.anchors(anchors):
        pull = [math.exp(alpha * (threshold - loops.inner_product(anchor, p))) for p in positives]
        push = [math.exp(beta * (loops.inner_product(anchor, n) - threshold)) for n in negatives]
        sides = [sum(side) / max(1, sum(term > 1 for term in side)) for side in (pull, push)]
        terms.append(math.log1p(sides[0]) / alpha + math.log1p(sides[1]) / beta)
    loss = MultiSimilarityLoss(alpha, beta, threshold, anchors, "mean_of_active", normalization=case.normalization)
    np.testing.assert_allclose(case(loss), loops.mean(terms), rtol=1e-12)


def ratio(signal, other):
    return np.var(np.subtract(other, signal)) / np.var(signal)


def mean_penalty(case, loops):
    return 0.3 * loops.mean(abs(sum(loops.normalized(v, case.normalization))) for v in case.embeddings)


@pytest.mark.parametrize(("positive_margin", "negative_margin"), [(0.0, 1.3), (0.5, 3.0)])
def test_the_contrastive_terms_equal_loops(case, loops, positive_margin, negative_margin):
    too_far, too_close = [], []
    for anchor, positives, negatives in case.anchors():
        too_far += [max(0.0, ratio(anchor, p) - positive_margin) for p in positives]
        too_close += [max(0.0, negative_margin - ratio(anchor, n)) for n in negatives]
    loss = SignalToNoiseLoss(
        "contrastive", positive_margin, negative_margin, 9.0, 0.3, normalization=case.normalization
    )
    expected = loops.mean_of_nonzero(too_far) + loops.mean_of_nonzero(too_close) + mean_penalty(case, loops)
    np.testing.assert_allclose(case(loss), expected, rtol=2e-5)


@pytest.mark.parametrize("margin", [0.2, 0.9])
def test_the_triplet_terms_equal_loops(case, loops, margin):
    terms = [
        ratio(anchor, positive) - ratio(anchor, negative) + margin
        for anchor, positives, negatives in case.anchors()
        for positive in positives
        for negative in negatives
    ]
    loss = SignalToNoiseLoss("triplet", 9.0, 9.0, margin, 0.3, normalization=case.normalization)
    np.testing.assert_allclose(case(loss), loops.mean_of_nonzero(terms) + mean_penalty(case, loops), rtol=2e-5)


def expected_loss(anchors, boundaries, margin, loops):
    """Wu's loss over all triplets, one by one."""
    total, active = 0.0, 0
    for (anchor, positives, negatives), boundary in zip(anchors, boundaries):
        for positive in positives:
            for negative in negatives:
                near = max(0.0, loops.distance(anchor, positive) - boundary + margin)
                far = max(0.0, boundary - loops.distance(anchor, negative) + margin)
                total, active = total + near + far, active + (near > 0) + (far > 0)
    return total / max(active, 1)


@pytest.mark.parametrize("anchors", ["embeddings", "references"])
@pytest.mark.parametrize(("margin", "boundary"), [(0.2, 0.6), (0.2, 1.2), (0.0, 0.9)])
def test_margin_equals_loops(case, loops, margin, boundary, anchors):
    loss = MarginLoss(None, margin, boundary, anchors, normalization=case.normalization)
    loss.boundaries.assign([boundary])  # Keras' constants are rounded to float32
    expected = expected_loss(case.anchors(anchors), [boundary] * 9, margin, loops)
    np.testing.assert_allclose(case(loss), expected, rtol=1e-12)


def test_each_class_has_its_boundary_and_an_unknown_one_the_first(case, loops):
    loss = MarginLoss(2, 0.2, 0.65, normalization=case.normalization)
    loss.boundaries.assign([0.5, 1.1])
    expected = expected_loss(case.anchors(), [{0: 0.5, 1: 1.1}.get(label, 0.65) for label in case.labels], 0.2, loops)
    np.testing.assert_allclose(case(loss), expected, rtol=1e-12)


def test_the_boundary_learns_from_both_sides():
    loss = MarginLoss(3, margin=0.2, boundary=0.6)
    embeddings = tf.constant([[1.0, 0.0], [0.0, 1.0], [-1.0, 0.0]])  # positives at 1.41, negatives at 2 and 1.41
    with tf.GradientTape() as tape:
        value = loss(embeddings, tf.constant([0, 0, 2]))
    # Only the two positive pairs are active: the boundary of their class goes up, the others stay.
    np.testing.assert_allclose(tape.gradient(value, loss.boundaries), [-1.0, 0.0, 0.0])
    assert loss.proxy_variables[0] is loss.boundaries


def test_one_boundary_also_serves_several_labels():
    embeddings, labels = np.random.default_rng(0).normal(size=(6, 3)), np.array([0, 0, 1, 1, 2, 2])
    assert MarginLoss()(embeddings, np.eye(3, dtype=bool)[labels]) == MarginLoss()(embeddings, labels)


@pytest.mark.parametrize("anchors", ["embeddings", "references"])
@pytest.mark.parametrize("temperature", [0.1, 1.0])
def test_supervised_contrastive_equals_loops(case, loops, temperature, anchors):
    """Equation 2 of the paper, with the mean over anchors."""
    means = []
    for anchor, positives, negatives in case.anchors(anchors):
        products = [loops.inner_product(anchor, partner) / temperature for partner in [*positives, *negatives]]
        total = sum(math.exp(product) for product in products)
        terms = [-math.log(math.exp(product) / total) for product in products[: len(positives)]]
        if terms:
            means.append(loops.mean(terms))
    loss = SupervisedContrastiveLoss(temperature, anchors, normalization=case.normalization)
    np.testing.assert_allclose(case(loss), loops.mean(means), rtol=1e-12)


@pytest.mark.parametrize("anchors", ["embeddings", "references"])
@pytest.mark.parametrize(("margin", "scale"), [(0.4, 8.0), (0.25, 2.0)])
def test_circle_equals_loops(case, loops, margin, scale, anchors):
    terms = []
    for anchor, positives, negatives in case.anchors(anchors):
        near = [loops.inner_product(anchor, p) for p in positives]
        far = [loops.inner_product(anchor, n) for n in negatives]
        pull = sum(math.exp(-scale * max(0.0, 1.0 + margin - s) * (s - 1.0 + margin)) for s in near)
        push = sum(math.exp(scale * max(0.0, s + margin) * (s - margin)) for s in far)
        if positives and negatives:
            terms.append(math.log1p(pull * push))
    for constant_weights in (True, False):
        loss = CircleLoss(margin, scale, anchors, constant_weights, normalization=case.normalization)
        np.testing.assert_allclose(case(loss), loops.mean(terms), rtol=2e-4)


def test_the_weights_are_constant_in_the_gradient():
    similarities = tf.Variable([0.3, 0.7])  # of a positive and of a negative to the anchor
    with tf.GradientTape() as tape:
        points = tf.stack([similarities, tf.sqrt(1.0 - similarities**2)], axis=1)
        value = CircleLoss(0.4, 0.5)(np.array([[1.0, 0.0]]), np.array([0]), References(points, np.array([0, 1])))
    pull, push = -0.5 * (1.4 - 0.3) * (0.3 - 0.6), 0.5 * (0.7 + 0.4) * (0.7 - 0.4)
    share = 1.0 / (1.0 + math.exp(-(pull + push)))
    expected = [-share * 0.5 * (1.4 - 0.3), share * 0.5 * (0.7 + 0.4)]
    np.testing.assert_allclose(tape.gradient(value, similarities), expected, rtol=1e-5)


@pytest.mark.parametrize("anchors", ["embeddings", "references"])
@pytest.mark.parametrize("scale", [1.0, 16.0])
def test_n_pair_equals_loops(case, loops, scale, anchors):
    terms = []
    for anchor, positives, negatives in case.anchors(anchors):
        for positive in positives if negatives else []:
            near = loops.inner_product(anchor, positive)
            terms.append(math.log1p(sum(math.exp(scale * (loops.inner_product(anchor, n) - near)) for n in negatives)))
    loss = NPairLoss(scale, anchors=anchors, normalization=case.normalization)
    np.testing.assert_allclose(case(loss), loops.mean(terms), rtol=1e-12)


@pytest.mark.parametrize("kind", [NPairLoss, LiftedStructureLoss])
def test_the_penalty_is_of_the_norms_before_the_normalization(case, kind):
    plain, with_penalty = (kind(norm_penalty=weight, normalization=case.normalization) for weight in (0.0, 0.005))
    norms = np.linalg.norm(case.embeddings, axis=1)
    np.testing.assert_allclose(case(with_penalty) - case(plain), 0.005 * norms.mean(), rtol=1e-11)


@pytest.mark.parametrize(
    ("loss", "embeddings", "labels", "expected"),
    [
        # (1/β) log(1 + e^{β (100 - .5)})
        (MultiSimilarityLoss(negative_scale=100.0, normalization="none"), [[10.0], [10.0]], [0, 1], 100.0 - 0.5),
        (SupervisedContrastiveLoss(1e-4), np.eye(4), [0, 0, 1, 1], np.log(3.0)),
        # The second anchor's negative has weight 0.
        (CircleLoss(0.4, 80.0), [[1.0, 0.0], [-1.0, 0.0], [1.0, 0.0]], [0, 0, 1], 80 * (2.4 * 1.6 + 1.4 * 0.6 / 2)),
        (NPairLoss(normalization="none"), [[100.0], [100.0], [200.0]], [0, 0, 1], 100.0 * 200.0 - 100.0 * 100.0),
    ],
)
def test_large_similarities_do_not_overflow(loss, embeddings, labels, expected):
    np.testing.assert_allclose(loss(np.float32(embeddings), np.array(labels)), expected, rtol=1e-5)


@pytest.mark.parametrize("seed", range(3))
def test_one_positive_an_anchor_equals_tensorflow_addons(seed):
    tfa = pytest.importorskip("tensorflow_addons", reason="tensorflow-addons needs the thesis stack")
    rng = np.random.default_rng(seed)
    anchors, positives = (tf.constant(rng.normal(size=(8, 5)), tf.float32) for _ in range(2))
    labels = tf.constant(rng.permutation(8))
    expected = tfa.losses.npairs_loss(labels, anchors @ tf.transpose(positives))
    value = NPairLoss(normalization="none")(anchors, labels, References(positives, labels))
    np.testing.assert_allclose(value, expected, rtol=1e-5)


@pytest.mark.parametrize("loss", [NPairLoss(), AngularLoss(), LiftedStructureLoss(generalized=True)])
def test_pairs_without_negatives_do_not_count(loss):
    assert float(loss(np.array([[1.0, 0.0], [0.6, 0.8], [0.0, 1.0]]), np.zeros(3, int))) == 0.0
