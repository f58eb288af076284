import math

import numpy as np
import pytest
import tensorflow as tf

from common.losses import LiftedStructureLoss
from common.losses.lifted_structure import lifted_structure


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


def test_the_penalty_is_of_the_norms_before_the_normalization(case):
    losses = [LiftedStructureLoss(norm_penalty=weight, normalization=case.normalization) for weight in (0.0, 0.5)]
    norms = np.linalg.norm(case.embeddings, axis=1)
    np.testing.assert_allclose(case(losses[1]) - case(losses[0]), 0.5 * norms.mean(), rtol=1e-12)


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


def test_an_anchor_without_negatives_does_not_count():
    loss = LiftedStructureLoss(generalized=True)
    assert float(loss(np.array([[1.0, 0.0], [0.6, 0.8], [-1.0, 0.0]]), np.zeros(3, int))) == 0.0
