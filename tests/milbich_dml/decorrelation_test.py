import numpy as np
import pytest
import tensorflow as tf

from milbich_dml import DecorrelationLoss
from milbich_dml.decorrelation import reverse_gradient
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


def value_by_hand(loss, embeddings):
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
def test_equals_the_formula(reduction):
    embeddings, loss = random_embeddings(), make(reduction=reduction)
    np.testing.assert_allclose(loss(embeddings, np.zeros(5, int)), value_by_hand(loss, embeddings), rtol=1e-12)


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


def gradient_of(function, values):
    x = tf.constant(values, tf.float64)
    with tf.GradientTape() as tape:
        tape.watch(x)
        total = tf.reduce_sum(function(x) ** 3)
    return tape.gradient(total, x).numpy()


def test_is_the_identity_with_minus_its_gradient():
    values = np.array([[1.0, -2.0], [0.5, 3.0]])
    np.testing.assert_array_equal(reverse_gradient(tf.constant(values)), values)
    np.testing.assert_array_equal(gradient_of(reverse_gradient, values), -3.0 * values**2)
