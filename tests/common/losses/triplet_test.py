import numpy as np
import pytest
import tensorflow as tf

from common.losses import Triplet
from common.losses.triplet import triplet
from common.ops.checks import InvalidInput
from common.references import References


@pytest.mark.parametrize("anchors", ["embeddings", "references"])
@pytest.mark.parametrize("margin", [0.0, 0.0961, 0.7])
def test_equals_loops(case, loops, margin, anchors):
    terms = []
    for anchor, positives, negatives in case.anchors(anchors):
        for positive in positives:
            for negative in negatives:
                terms.append(loops.distance(anchor, positive) - loops.distance(anchor, negative) + margin)
    loss = Triplet(margin, anchors, normalization=case.normalization)
    np.testing.assert_allclose(case(loss), loops.mean_of_nonzero(terms), rtol=1e-5)


def random_pairs(anchors, references, num_classes, seed, dtype=np.float64):
    rng = np.random.default_rng(seed)
    same = rng.integers(0, num_classes, anchors)[:, None] == rng.integers(0, num_classes, references)
    takes_part = rng.uniform(size=same.shape) < 0.8
    return rng.uniform(0.0, 2.0, same.shape).astype(dtype), same & takes_part, ~same & takes_part


@pytest.mark.parametrize("seed", range(5))
def test_value_and_gradient_equal_those_of_the_tensor_of_all_triplets(seed):
    distances, positive, negative = random_pairs(anchors=13, references=29, num_classes=5, seed=seed)
    variable = tf.Variable(distances)
    with tf.GradientTape() as tape:
        loss = triplet(variable, positive, negative, 0.3)
    with tf.GradientTape() as cubic_tape:
        terms = tf.nn.relu(variable[:, :, None] - variable[:, None, :] + 0.3)
        terms = tf.where(positive[:, :, None] & negative[:, None, :], terms, tf.zeros_like(terms))
        cubic = tf.reduce_sum(terms) / tf.reduce_sum(tf.cast(terms > 0, tf.float64))
    np.testing.assert_allclose(loss, cubic, rtol=1e-12)
    np.testing.assert_allclose(tape.gradient(loss, variable), cubic_tape.gradient(cubic, variable), atol=1e-12)


def test_a_triplet_that_just_keeps_the_margin_does_not_count():
    distances = tf.constant([[0.25, 0.75, 0.5]])
    positive, negative = tf.constant([[True, False, False]]), tf.constant([[False, True, True]])
    # Active: .25 - .5 + .5; on the margin, in whichever order the columns come: .25 - .75 + .5.
    assert triplet(distances, positive, negative, 0.5) == 0.25
    reversed_columns = [tf.reverse(x, [1]) for x in (distances, positive, negative)]
    assert triplet(*reversed_columns, 0.5) == 0.25


def test_equals_semi_hard_of_tensorflow_addons_where_there_is_nothing_to_mine():
    tfa = pytest.importorskip("tensorflow_addons", reason="tensorflow-addons needs the thesis stack")
    embeddings = tf.math.l2_normalize(tf.constant(np.random.default_rng(0).normal(size=(6, 4)), tf.float32), axis=1)
    # One negative for each anchor leaves no choice, and at margin 3 every term of unit vectors is greater than zero.
    labels = tf.constant([0, 0, 0, 0, 0, 1])
    expected = tfa.losses.triplet_semihard_loss(labels, embeddings, margin=3.0, distance_metric="L2")
    np.testing.assert_allclose(Triplet(3.0)(embeddings, labels), expected, rtol=1e-5)


def test_needs_no_tensor_of_all_triplets():
    rng = np.random.default_rng(0)  # all triplets: 32 x 20,000² x 4 bytes = 51 GB
    references = References(rng.normal(size=(20_000, 8)).astype(np.float32), rng.integers(0, 500, 20_000))
    loss = Triplet(0.1)(rng.normal(size=(32, 8)).astype(np.float32), np.arange(32), references)
    assert 0.0 < float(loss) < 2.1


def test_unknown_anchors_list_the_choices():
    with pytest.raises(InvalidInput, match="anchors: received 'proxies', expected one of embeddings, references"):
        Triplet(anchors="proxies")
