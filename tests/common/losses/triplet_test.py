import re

import numpy as np
import pytest
import tensorflow as tf

from common.losses import TripletLoss
from common.losses.triplet import rank_by_bisection, triplet


def all_triplets(anchor, positives, negatives, margin, distance):
    for positive in positives:
        for negative in negatives:
            yield distance(anchor, positive) - distance(anchor, negative) + margin


def semi_hard(anchor, positives, negatives, margin, distance):
    for positive in positives:
        near = distance(anchor, positive)
        for far in (distance(anchor, negative) for negative in negatives):
            if near < far < near + margin:
                yield near - far + margin


def nearest_semi_hard(anchor, positives, negatives, margin, distance):
    for positive in positives if negatives else []:
        near = distance(anchor, positive)
        distances = sorted(distance(anchor, negative) for negative in negatives)
        far = next((far for far in distances if far > near), distances[-1])
        yield max(near - far + margin, 0.0)


TERMS = {"none": all_triplets, "semi_hard": semi_hard, "nearest_semi_hard": nearest_semi_hard}


@pytest.mark.one_in(5)
@pytest.mark.parametrize("anchors", ["embeddings", "references"])
@pytest.mark.parametrize(("margin", "power"), [(0.0, 1), (0.0961, 1), (0.7, 1), (0.3, 2)])
@pytest.mark.parametrize("mining", TERMS)
def test_equals_loops(case, loops, mining, margin, power, anchors):
    def distance(x, y):
        return loops.distance(x, y) ** power

    terms = [term for anchor in case.anchors(anchors) for term in TERMS[mining](*anchor, margin, distance)]
    expected = loops.mean(terms) if mining == "nearest_semi_hard" else loops.mean_of_nonzero(terms)
    loss = TripletLoss(margin, anchors, mining, squared=power == 2, normalization=case.normalization)
    np.testing.assert_allclose(case(loss), expected, rtol=1e-12)


def random_pairs(anchors, references, num_classes, seed, dtype=np.float64):
    rng = np.random.default_rng(seed)
    same = rng.integers(0, num_classes, anchors)[:, None] == rng.integers(0, num_classes, references)
    takes_part = rng.uniform(size=same.shape) < 0.8
    return rng.uniform(0.0, 2.0, same.shape).astype(dtype), same & takes_part, ~same & takes_part


def cubic(distances, positive, negative, margin, mining, weights=None):
    """The loss: the mean over the tensor of all triplets."""
    near, far = distances[:, :, None], distances[:, None, :]
    pairs = positive[:, :, None] & negative[:, None, :]
    if mining == "semi_hard":
        pairs = pairs & (near < far).numpy()
    if mining == "nearest_semi_hard":
        farther = np.where(pairs & (near < far).numpy(), far, np.inf)
        chosen = np.where(
            np.isfinite(farther).any(axis=2), farther.argmin(axis=2), np.where(pairs, far, -1.0).argmax(axis=2)
        )
        pairs = pairs & (np.arange(distances.shape[1]) == chosen[:, :, None])
    terms = tf.where(pairs, tf.nn.relu(near - far + margin), 0.0)
    num_terms = pairs.sum() if mining == "nearest_semi_hard" else tf.math.count_nonzero(terms)
    terms = terms if weights is None else terms * weights[:, None, None]
    return tf.reduce_sum(terms) / tf.cast(num_terms, tf.float64)


@pytest.mark.parametrize("mining", ["none", "semi_hard", "nearest_semi_hard"])
@pytest.mark.parametrize(("references", "num_classes"), [(29, 5), (90, 2)])  # few positives, and more than 32
@pytest.mark.parametrize("seed", range(3))
def test_value_and_gradient_equal_those_of_the_tensor_of_all_triplets(seed, references, num_classes, mining):
    distances, positive, negative = random_pairs(13, references, num_classes, seed)
    variable = tf.Variable(distances)
    for weights in (None, tf.constant(np.random.default_rng(seed).uniform(0.0, 2.0, 13))):
        with tf.GradientTape() as tape:
            loss = triplet(variable, positive, negative, 0.3, mining, weights)
        with tf.GradientTape() as cubic_tape:
            expected = cubic(variable + 0.0, positive, negative, 0.3, mining, weights)
        np.testing.assert_allclose(loss, expected, rtol=1e-12)
        np.testing.assert_allclose(tape.gradient(loss, variable), cubic_tape.gradient(expected, variable), atol=1e-12)


def test_a_triplet_that_just_keeps_the_margin_does_not_count():
    distances = tf.constant([[0.25, 0.75, 0.5]])
    positive, negative = tf.constant([[True, False, False]]), tf.constant([[False, True, True]])
    # Active: .25 - .5 + .5; on the margin, in whichever order the columns come: .25 - .75 + .5.
    assert triplet(distances, positive, negative, 0.5) == 0.25
    reversed_columns = [tf.reverse(x, [1]) for x in (distances, positive, negative)]
    assert triplet(*reversed_columns, 0.5) == 0.25


@pytest.mark.parametrize("margin", [0.1, 1.0])
@pytest.mark.parametrize("seed", range(5))
def test_nearest_semi_hard_equals_tensorflow_addons(seed, margin):
    tfa = pytest.importorskip("tensorflow_addons", reason="tensorflow-addons needs the thesis stack")
    rng = np.random.default_rng(seed)
    embeddings = tf.math.l2_normalize(tf.constant(rng.normal(size=(24, 4)), tf.float32), axis=1)
    labels = tf.constant(rng.integers(0, 5, 24))
    with tf.GradientTape(persistent=True) as tape:
        tape.watch(embeddings)
        expected = tfa.losses.triplet_semihard_loss(labels, embeddings, margin=margin, distance_metric="L2")
        value = TripletLoss(margin, mining="nearest_semi_hard", normalization="none")(embeddings, labels)
    np.testing.assert_allclose(value, expected, rtol=1e-5)
    gradients = [tape.gradient(loss, embeddings) for loss in (value, expected)]
    np.testing.assert_allclose(*gradients, atol=1e-5)


def largest_tensor_under_xla(function, *arguments):
    """The number of elements of the largest tensor in the program that XLA gets."""
    program = tf.function(function, jit_compile=True, autograph=False).experimental_get_compiler_ir(*arguments)
    shapes = re.findall(r"\[([\d,]+)\]", program("hlo").replace("<=", ""))  # `<=` stands before a bound
    return max(np.prod([int(size) for size in shape.split(",")]) for shape in shapes)


@pytest.mark.one_in(3)
@pytest.mark.parametrize("mining", ["none", "semi_hard", "nearest_semi_hard"])
def test_memory_is_linear_in_the_references_under_xla(mining):
    sizes = []
    for size in (200, 400):
        pairs = [tf.constant(x) for x in random_pairs(4, size, 3, 0, np.float32)]
        sizes.append(largest_tensor_under_xla(lambda *x: triplet(*x, 0.3, mining), *pairs))
    assert sizes[1] <= 2.1 * sizes[0]


@pytest.mark.parametrize("side", ["left", "right"])
@pytest.mark.parametrize("size", [1, 2, 3, 8, 9, 100])
def test_ranks_by_bisection_equal_searchsorted(size, side):
    rng = np.random.default_rng(size)
    ordered = np.sort(rng.integers(0, 30, (4, size)).astype(np.float32))
    ordered[0, size // 2 :] = np.inf
    values = np.concatenate([rng.integers(-1, 31, (4, 50)), np.full((4, 1), np.inf)], axis=1).astype(np.float32)
    expected = [np.searchsorted(*row, side) for row in zip(ordered, values)]
    np.testing.assert_array_equal(rank_by_bisection(tf.constant(ordered), tf.constant(values), side), expected)


def test_a_positive_of_an_anchor_without_negatives_is_no_term():
    distances = tf.constant([[0.5, 0.2], [0.4, 0.6]])
    positive, negative = tf.constant([[True, False], [True, False]]), tf.constant([[False, False], [False, True]])
    value = triplet(distances, positive, negative, 0.5, "nearest_semi_hard")
    np.testing.assert_allclose(value, 0.4 - 0.6 + 0.5, rtol=1e-6)


def test_a_negative_as_near_as_the_positive_is_not_semi_hard():
    distances, positive = tf.constant([[0.5, 0.5, 0.6]]), tf.constant([[True, False, False]])
    np.testing.assert_allclose(triplet(distances, positive, ~positive, 0.3, "semi_hard"), 0.5 - 0.6 + 0.3, rtol=1e-6)
