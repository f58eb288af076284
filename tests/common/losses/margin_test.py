import numpy as np
import pytest
import tensorflow as tf

from common.losses import MarginLoss


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
def test_equals_loops(case, loops, margin, boundary, anchors):
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
