import numpy as np
import tensorflow as tf

from common.losses import ContrastiveLoss, SelfDistillationLoss, TripletLoss, similarity_divergence
from common.references import References
from tests.support.slopes import slope_along

DIM, FEATURES, BRANCHES, TEMPERATURE = 3, 4, (5, 6), 0.5
LABELS = np.array([0, 0, 1, 1, 2, 2])
BATCH = np.random.default_rng(0).normal(size=(6, DIM + FEATURES))


def make(**settings):
    """A float64 loss whose branches have given weights, biases too."""
    parts = [
        TripletLoss(0.5, dtype="float64"),
        ContrastiveLoss(0.2, 0.9, dtype="float64"),
        TripletLoss(dtype="float64"),
    ]
    loss = SelfDistillationLoss(
        parts, DIM, FEATURES, BRANCHES, **{"temperature": TEMPERATURE, "start_step": 2, "dtype": "float64", **settings}
    )
    rng = np.random.default_rng(7)
    for variable in loss.trainable_variables:
        variable.assign(rng.normal(size=variable.shape))
    return loss


def cosines(vectors):
    unit = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    return [[float(np.dot(x, y)) for y in unit] for x in unit]


def divergence_by_hand(embeddings, teacher, temperature):
    total, count = 0.0, len(embeddings)
    for row, expected in zip(cosines(embeddings), cosines(teacher)):
        q, p = np.exp(np.array(row) / temperature), np.exp(np.array(expected) / temperature)
        q, p = q / q.sum(), p / p.sum()
        total += sum(p[j] * np.log(p[j] / q[j]) for j in range(count))
    return temperature**2 * total / count


def branches_by_hand(loss, features):
    for kernel, bias, out_kernel, out_bias in loss.branches:
        yield np.maximum(features @ kernel.numpy() + bias.numpy(), 0.0) @ out_kernel.numpy() + out_bias.numpy()


def value_by_hand(loss, batch, with_features):
    student, features = batch[:, :DIM], batch[:, DIM:]
    larger = list(branches_by_hand(loss, features))
    own, *others = (float(part(x, LABELS)) for part, x in zip(loss.parts, (student, *larger)))
    value = (own + np.mean(others)) / 2
    value += loss.weight * np.mean([divergence_by_hand(student, x, TEMPERATURE) for x in larger])
    return value + with_features * loss.feature_weight * divergence_by_hand(student, features, TEMPERATURE)


def test_equals_the_formula_and_counts_steps_of_training_alone():
    loss = make(weight=3.0, feature_weight=7.0)
    values = [float(loss(BATCH, LABELS, training=training)) for training in (True, False, True, True)]
    expected = [value_by_hand(loss, BATCH, with_features) for with_features in (False, False, False, True)]
    np.testing.assert_allclose(values, expected, rtol=1e-12)
    assert int(loss.step.numpy()) == 3


def test_a_teacher_has_no_gradient_and_the_embedding_the_exact_one():
    student, teacher = tf.Variable(BATCH[:, :DIM]), tf.Variable(BATCH[:, DIM:])
    with tf.GradientTape() as tape:
        value = similarity_divergence(student, teacher, TEMPERATURE)
    of_student, of_teacher = tape.gradient(value, [student, teacher])
    direction = np.random.default_rng(1).normal(size=student.shape)
    numeric = slope_along(direction, student, lambda: similarity_divergence(student, teacher, TEMPERATURE))
    assert of_teacher is None
    np.testing.assert_allclose(np.sum(of_student * direction), numeric, rtol=1e-5)


def test_branches_learn_from_their_losses_alone():
    """And features from the branches, never from what they teach."""
    gradients = []
    for weight in (0.0, 50.0):
        loss, points = make(weight=weight, feature_weight=weight, start_step=0), tf.Variable(BATCH)
        with tf.GradientTape() as tape:
            value = loss(tf.convert_to_tensor(points), LABELS)
        found = tape.gradient(value, [points, *loss.trainable_variables])
        gradients.append([found[0][:, DIM:], *found[1:], found[0][:, :DIM]])
    for without, taught in zip(*(of[:-1] for of in gradients)):
        np.testing.assert_array_equal(without, taught)
    assert np.abs(gradients[0][-1] - gradients[1][-1]).max() > 1e-2


def test_references_pass_the_branches_too():
    loss, others = make(weight=0.0, feature_weight=0.0), np.random.default_rng(2).normal(size=BATCH.shape)
    points, references = ([of[:, :DIM], *branches_by_hand(loss, of[:, DIM:])] for of in (BATCH, others))
    own, *larger = (
        float(part(x, LABELS, References(of, LABELS, np.ones(6, bool))))
        for part, x, of in zip(loss.parts, points, references)
    )
    found = loss(BATCH, LABELS, References(others, LABELS, np.ones(6, bool)))
    np.testing.assert_allclose(found, (own + np.mean(larger)) / 2, rtol=1e-12)
