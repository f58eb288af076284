import math

import numpy as np
import pytest
import tensorflow as tf

from common.losses import NPairLoss
from common.references import References


@pytest.mark.parametrize("anchors", ["embeddings", "references"])
@pytest.mark.parametrize("scale", [1.0, 16.0])
def test_equals_loops(case, loops, scale, anchors):
    terms = []
    for anchor, positives, negatives in case.anchors(anchors):
        for positive in positives if negatives else []:
            near = loops.inner_product(anchor, positive)
            terms.append(math.log1p(sum(math.exp(scale * (loops.inner_product(anchor, n) - near)) for n in negatives)))
    loss = NPairLoss(scale, anchors=anchors, normalization=case.normalization)
    np.testing.assert_allclose(case(loss), loops.mean(terms), rtol=1e-12)


def test_the_penalty_is_of_the_norms_before_the_normalization(case):
    plain, with_penalty = (NPairLoss(norm_penalty=weight, normalization=case.normalization) for weight in (0.0, 0.005))
    norms = np.linalg.norm(case.embeddings, axis=1)
    np.testing.assert_allclose(case(with_penalty) - case(plain), 0.005 * norms.mean(), rtol=1e-12)


def test_large_products_do_not_overflow():
    loss = NPairLoss(normalization="none")(np.array([[100.0], [100.0], [200.0]]), np.array([0, 0, 1]))
    np.testing.assert_allclose(loss, 100.0 * 200.0 - 100.0 * 100.0, rtol=1e-6)


@pytest.mark.parametrize("seed", range(3))
def test_one_positive_an_anchor_equals_tensorflow_addons(seed):
    tfa = pytest.importorskip("tensorflow_addons", reason="tensorflow-addons needs the thesis stack")
    rng = np.random.default_rng(seed)
    anchors, positives = (tf.constant(rng.normal(size=(8, 5)), tf.float32) for _ in range(2))
    labels = tf.constant(rng.permutation(8))
    expected = tfa.losses.npairs_loss(labels, anchors @ tf.transpose(positives))
    value = NPairLoss(normalization="none")(anchors, labels, References(positives, labels))
    np.testing.assert_allclose(value, expected, rtol=1e-5)


def test_pairs_without_negatives_do_not_count():
    assert float(NPairLoss()(np.array([[1.0, 0.0], [0.6, 0.8], [0.0, 1.0]]), np.zeros(3, int))) == 0.0
