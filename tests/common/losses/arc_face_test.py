import math

import numpy as np
import pytest
import tensorflow as tf

from common.losses import ArcFaceLoss, CosFaceLoss
from common.losses.arc_face import cosines_of_wider_angles


def with_margin(cosine, margin):
    angle = math.acos(min(max(cosine, -1.0), 1.0))
    return math.cos(angle + margin) if angle + margin <= math.pi else math.cos(angle) - margin * math.sin(margin)


@pytest.mark.parametrize(("margin", "scale"), [(0.5, 16.0), (0.3, 4.0), (0.0, 8.0)])
def test_equals_loops_over_given_references_or_its_own_class_vectors(case, loops, margin, scale):
    loss = ArcFaceLoss(4, 2, margin, scale, normalization=case.normalization)
    terms = []
    for anchor, positives, negatives in case.anchors(references=case.references or loss.proxy_bank.references()):
        near = sum(math.exp(scale * with_margin(loops.inner_product(anchor, p), margin)) for p in positives)
        clipped = [min(max(loops.inner_product(anchor, n), -1.0), 1.0) for n in negatives]
        if positives:
            terms.append(-math.log(near / (near + sum(math.exp(scale * cosine) for cosine in clipped))))
    np.testing.assert_allclose(case(loss), loops.mean(terms), rtol=5e-4, atol=1e-13)


def test_the_logit_falls_with_the_angle_and_its_gradient_is_finite():
    angles = np.linspace(0.0, np.pi, 1001)
    cosines = tf.constant(np.cos(angles))
    with tf.GradientTape() as tape:
        tape.watch(cosines)
        wider = cosines_of_wider_angles(cosines, 0.5)
    within = angles + 0.5 <= np.pi
    np.testing.assert_allclose(wider.numpy()[within], np.cos(angles + 0.5)[within], atol=1e-7)
    assert (np.diff(wider) < 0).all()
    slopes = tape.gradient(wider, cosines).numpy()
    inside = within & (angles > 0)
    np.testing.assert_allclose(slopes[inside], np.sin(angles[inside] + 0.5) / np.sin(angles[inside]), rtol=1e-6)
    assert np.isfinite(slopes).all()


@pytest.mark.parametrize(("margin", "scale"), [(0.35, 8.0), (0.0, 2.0)])
def test_cos_face_equals_loops(case, loops, margin, scale):
    loss = CosFaceLoss(4, 2, margin, scale, normalization=case.normalization)
    terms = []
    for anchor, positives, negatives in case.anchors(references=case.references or loss.proxy_bank.references()):
        near, far = (
            [min(max(loops.inner_product(anchor, each), -1.0), 1.0) for each in others]
            for others in (positives, negatives)
        )
        near = sum(math.exp(scale * (cosine - margin)) for cosine in near)
        far = sum(math.exp(scale * cosine) for cosine in far)
        if positives:
            terms.append(-math.log(near / (near + far)))
    np.testing.assert_allclose(case(loss), loops.mean(terms), rtol=5e-4, atol=1e-13)


def test_of_several_centers_the_nearest_counts():
    rng = np.random.default_rng(0)
    embeddings, labels = rng.normal(size=(6, 4)), rng.integers(0, 3, 6)
    many = ArcFaceLoss(3, 4, 0.3, 8.0, centers_per_class=2)
    centers = np.asarray(many.proxy_bank.proxies).reshape(3, 2, 4)
    unit = centers / np.linalg.norm(centers, axis=2, keepdims=True)
    terms = []
    for embedding, label in zip(embeddings / np.linalg.norm(embeddings, axis=1, keepdims=True), labels):
        cosines = (unit @ embedding).max(axis=1)
        cosines[label] = with_margin(cosines[label], 0.3)
        terms.append(-8 * cosines[label] + np.log(np.exp(8 * cosines).sum()))
    np.testing.assert_allclose(many(embeddings, labels), np.mean(terms), rtol=1e-4)
