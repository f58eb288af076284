import numpy as np
import pytest
import tensorflow as tf
from scipy.spatial.distance import cdist

from common.references import References
from milbich_dml import DecorrelationLoss, DistanceAdaptedContrastLoss
from tests.support.slopes import slope_along

SIZES, HIDDEN = (3, 2, 2), 4


def random_embeddings(seed=0, size=5):
    return np.random.default_rng(seed).normal(size=(size, sum(SIZES)))


def make(pairs=((0, 1), (2, 0)), weight=2.0, **settings):
    """A float64 loss whose networks have given weights, biases too."""
    loss, rng = DecorrelationLoss(SIZES, pairs, weight, HIDDEN, dtype="float64", **settings), np.random.default_rng(7)
    for variable in loss.trainable_variables:
        variable.assign(rng.normal(size=variable.shape) / 2)
    return loss


def decorrelation_value_by_hand(loss, embeddings):
    parts = np.split(embeddings, np.cumsum(SIZES)[:-1], axis=1)
    parts, total = [part / np.linalg.norm(part, axis=1, keepdims=True) for part in parts], 0.0
    for (a, b), network in zip(loss.pairs, loss.networks):
        kernel, bias, out_kernel, out_bias = map(np.array, network)
        predicted = np.maximum(parts[b] @ kernel + bias, 0.0) @ out_kernel + out_bias
        predicted /= np.linalg.norm(predicted, axis=1, keepdims=True)
        squares = np.sum((parts[a] * predicted) ** 2, axis=1)
        total += squares.mean() / (SIZES[a] if loss.reduction == "mean" else 1)
    return -loss.weight * total


@pytest.mark.parametrize("reduction", ["mean", "sum"])
def test_decorrelation_equals_the_formula(reduction):
    embeddings, loss = random_embeddings(), make(reduction=reduction)
    np.testing.assert_allclose(
        loss(embeddings, np.zeros(5, int)), decorrelation_value_by_hand(loss, embeddings), rtol=1e-12
    )


def test_gradients_are_the_exact_one_of_the_network_and_minus_that_of_the_embeddings():
    loss, points, labels = make(), tf.Variable(random_embeddings()), np.zeros(5, int)
    variables = [points, *loss.trainable_variables]
    with tf.GradientTape() as tape:
        value = loss(tf.convert_to_tensor(points), labels)
    gradients = tape.gradient(value, variables)
    rng = np.random.default_rng(1)
    for variable, gradient in zip(variables, gradients):
        sign = -1.0 if variable is points else 1.0
        direction = rng.normal(size=variable.shape)
        numeric = slope_along(direction, variable, lambda: loss(tf.convert_to_tensor(points), labels))
        assert abs(numeric) > 1e-3
        np.testing.assert_allclose(np.sum(gradient * direction), sign * numeric, rtol=1e-5)


DIM, TEMPERATURE, CLIP = 4, 0.3, 2.0
SWITCHES = [
    {"weights": weights, "positive_in_denominator": inside, "clip": CLIP if weights == "print" else None}
    for weights in ("anchor", "batch", "print", "none")
    for inside in (True, False)
]


def unit(x):
    return x / np.linalg.norm(x, axis=-1, keepdims=True)


def views(seed, size=3):
    """Images at 0..size-1 and their keys, near to them, as a batch with references."""
    rng = np.random.default_rng(seed)
    points = unit(rng.normal(size=(size, DIM)))
    return points, np.arange(size), References(unit(points + 0.3 * rng.normal(size=points.shape)), np.arange(size))


def inverse_density(distances, shortest):
    d = np.maximum(distances, shortest)
    return 1.0 / (d ** (DIM - 2) * np.maximum(1.0 - d**2 / 4.0, 1e-8) ** ((DIM - 3) / 2.0))


def distance_adapted_contrast_value_by_hand(anchors, keys, queue, weights, positive_in_denominator, clip):
    """The loss, anchor i with key i."""
    positives, distances = np.sum(anchors * keys, axis=1) / TEMPERATURE, cdist(anchors, queue)
    if weights in ("anchor", "batch"):
        raw = np.where(distances <= 1.4, inverse_density(distances, 0.5), 0.0)
        sums = np.broadcast_to(raw.sum(axis=1 if weights == "anchor" else 0, keepdims=True), raw.shape)
        factors = np.divide(raw, sums, out=np.zeros_like(raw), where=raw > 0)
    else:
        factors = np.minimum(clip, inverse_density(distances, 1e-6)) if weights == "print" else 1.0
    negatives = np.exp(factors * (anchors @ queue.T) / TEMPERATURE).sum(axis=1)
    return np.mean(np.log(negatives + positive_in_denominator * np.exp(positives)) - positives)


@pytest.mark.parametrize("switches", SWITCHES, ids=lambda switches: " ".join(map(str, switches.values())))
def test_distance_adapted_contrast_equals_the_formula(switches):
    loss = DistanceAdaptedContrastLoss(9, DIM, TEMPERATURE, dtype="float64", **switches)
    queue = []
    for seed in (1, 2):  # two of three batches' room
        embeddings, labels, references = views(seed)
        loss(embeddings, labels, references, training=True)
        queue.extend(references.embeddings)
    embeddings, labels, references = views(3)
    distances = np.linalg.norm(embeddings[:, None] - np.array(queue), axis=-1)
    assert (distances > 1.4).any()
    assert (distances < 1.0).any()
    value = loss(embeddings, labels, references)
    np.testing.assert_allclose(
        value,
        distance_adapted_contrast_value_by_hand(embeddings, references.embeddings, np.array(queue), **switches),
        rtol=1e-9,
    )


def test_the_oldest_half_batch_leaves_the_queue_and_a_batch_is_not_its_own_negative():
    loss = DistanceAdaptedContrastLoss(10, DIM, TEMPERATURE, weights="none", dtype="float64")  # 2.5 batches of 4
    batches = [views(seed, size=4) for seed in range(4)]
    seen = []
    for embeddings, labels, references in batches:
        queue = np.concatenate(seen)[-10:] if seen else np.zeros((0, DIM))
        value = float(loss(embeddings, labels, references, training=True))
        settings = {"weights": "none", "positive_in_denominator": True, "clip": None}
        expected = (
            distance_adapted_contrast_value_by_hand(embeddings, references.embeddings, queue, **settings)
            if seen
            else 0.0
        )
        np.testing.assert_allclose(value, expected, rtol=1e-9)
        seen.append(references.embeddings)
    held = {tuple(row) for row in np.round(np.array(loss.queue.embeddings), 9)}
    assert held == {tuple(row) for row in np.round(np.concatenate(seen)[-10:], 9)}


def test_weights_have_no_gradient():
    """The gradient is that of the loss with the weights as they are."""
    loss = DistanceAdaptedContrastLoss(6, DIM, TEMPERATURE, dtype="float64", normalization="none")
    for seed in (1, 2):
        loss(*views(seed), training=True)
    embeddings, labels, references = views(3)
    queue = loss.queue.references()
    weights = loss.weights_of(tf.constant(embeddings), queue.embeddings, queue.valid)
    points = tf.constant(embeddings)
    with tf.GradientTape(persistent=True) as tape:
        tape.watch(points)
        value = loss(points, labels, references)
        s = tf.reduce_sum(points * references.embeddings, axis=1) / TEMPERATURE
        negatives = tf.exp(weights * tf.matmul(points, queue.embeddings, transpose_b=True) / TEMPERATURE)
        expected = tf.reduce_mean(tf.math.log(tf.exp(s) + tf.reduce_sum(negatives, axis=1)) - s)
    np.testing.assert_allclose(value, expected, rtol=1e-9)
    np.testing.assert_allclose(tape.gradient(value, points), tape.gradient(expected, points), rtol=1e-7, atol=1e-9)


def test_references_that_are_not_valid_stay_out_of_the_queue():
    loss = DistanceAdaptedContrastLoss(6, DIM)
    embeddings, labels, references = views(0)
    loss(embeddings, labels, references._replace(valid=np.array([True, False, True])), training=True)
    assert int(loss.queue.num_enqueued) == 2
    np.testing.assert_allclose(loss.queue.embeddings[:2], references.embeddings[[0, 2]], rtol=1e-6)
