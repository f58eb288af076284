import math

import numpy as np
import pytest
import tensorflow as tf

from common.losses import DecorrelationLoss
from tests.slopes import slope_along

SIZES, HIDDEN = (3, 2, 2), 4


def random_embeddings(seed=0, size=5):
    return np.random.default_rng(seed).normal(size=(size, sum(SIZES)))


def make(pairs=((0, 1), (2, 0)), weight=2.0, **settings):
    """A float64 loss whose networks have given weights, biases too."""
    loss, rng = DecorrelationLoss(SIZES, pairs, weight, HIDDEN, dtype="float64", **settings), np.random.default_rng(7)
    for variable in loss.trainable_variables:
        variable.assign(rng.normal(size=variable.shape) / 2)
    return loss


def slices_of(row):
    first, parts = 0, []
    for size in SIZES:
        part = row[first : first + size]
        parts.append(part / math.sqrt(sum(x * x for x in part)))
        first += size
    return parts


def value_by_loops(loss, embeddings):
    total = 0.0
    for (a, b), network in zip(loss.pairs, loss.networks):
        kernel, bias, out_kernel, out_bias = (np.array(weight) for weight in network)
        for row in embeddings:
            parts = slices_of(row)
            hidden = [max(0.0, sum(x * kernel[i, j] for i, x in enumerate(parts[b])) + bias[j]) for j in range(HIDDEN)]
            out = [sum(h * out_kernel[j, k] for j, h in enumerate(hidden)) + out_bias[k] for k in range(SIZES[a])]
            norm = math.sqrt(sum(x * x for x in out))
            squares = sum((x * y / norm) ** 2 for x, y in zip(parts[a], out))
            total += squares / len(embeddings) / (SIZES[a] if loss.reduction == "mean" else 1)
    return -loss.weight * total


@pytest.mark.parametrize("reduction", ["mean", "sum"])
def test_equals_loops(reduction):
    embeddings, loss = random_embeddings(), make(reduction=reduction)
    np.testing.assert_allclose(loss(embeddings, np.zeros(5, int)), value_by_loops(loss, embeddings), rtol=1e-12)


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
