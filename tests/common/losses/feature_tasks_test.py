import itertools

import numpy as np
import pytest
import tensorflow as tf

from common.errors import InvalidInput
from common.losses import (
    DistanceAdaptedContrastLoss,
    InTurnLoss,
    MarginLoss,
    MinedLoss,
    feature_sizes,
    feature_tasks_loss,
)
from common.losses.feature_tasks import TASKS
from common.references import References

SUBSETS = [subset for number in (1, 2, 3) for subset in itertools.combinations(TASKS, number)]
SIZE, LABELS = 8, np.arange(8) % 3


def disc():
    return MinedLoss(MarginLoss(), seed=1)


def task(name, dim):
    if name == "dance":
        return DistanceAdaptedContrastLoss(2 * SIZE, dim, 0.2)
    return MinedLoss(MarginLoss(), {"shared": "inter_class", "intra": "intra_class"}[name], seed=TASKS.index(name) + 2)


def batch(dim, num_views, seed=0):
    rng = np.random.default_rng(seed)
    return rng.normal(size=(num_views * SIZE, dim)), np.tile(LABELS, num_views)


@pytest.mark.parametrize("subset", SUBSETS, ids="+".join)
def test_subsets_are_the_sums_of_their_tasks(subset):
    sizes = feature_sizes(13, len(subset) + 1)
    num_views = 2 if "dance" in subset else 1
    tasks = {name: task(name, sizes[-1]) for name in reversed(subset)}  # their order is that of TASKS
    loss = feature_tasks_loss(disc(), tasks, sizes, weight=0.3, decorrelation=5.0, hidden=4)
    apart = feature_tasks_loss(disc(), {name: task(name, sizes[-1]) for name in subset}, sizes, weight=0.3)
    queue = task("dance", sizes[-1])
    for seed in (1, 2):
        embeddings, labels = batch(13, num_views, seed)
        value, without = (float(one(embeddings, labels, training=True)) for one in (loss, apart))
        assert value < without  # decorrelation is negative
    embeddings, labels = batch(13, num_views, 3)
    expected = step(disc(), embeddings[:SIZE, : sizes[0]], 2)
    for slot, name in enumerate(subset, 1):
        first = sum(sizes[:slot])
        part = embeddings[:, first : first + sizes[slot]]
        if name == "dance":
            images = np.arange(SIZE)
            for seed in (1, 2, 3):
                both = batch(13, 2, seed)[0][:, first : first + sizes[slot]]
                one = queue(both[:SIZE], images, References(both[SIZE:], images), training=seed < 3)
            expected += 0.3 * float(one)
        else:
            expected += 0.3 * step(task(name, sizes[slot]), part[:SIZE], 2)
    np.testing.assert_allclose(float(apart(embeddings, labels)), expected, rtol=1e-5)


def step(loss, embeddings, number):
    """The value of a mined loss at a training step."""
    loss.step.assign(number)
    return float(loss(embeddings, LABELS))


def test_shared_features_take_turns():
    loss = feature_tasks_loss(disc(), {"shared": task("shared", 4)}, (5, 4), in_turn=True)
    assert isinstance(loss.parts[0], InTurnLoss)
    embeddings, labels = batch(9, 1)
    values = [float(loss(embeddings, labels, training=True)) for _ in range(3)]
    first, second = step(disc(), embeddings[:, :5], 0), step(task("shared", 4), embeddings[:, 5:], 0)
    np.testing.assert_allclose(values, [first, second, step(disc(), embeddings[:, :5], 1)], rtol=1e-5)


def test_weight_zero_leaves_the_gradient_of_the_first_slice():
    sizes = (5, 3, 3, 3)
    tasks = {name: task(name, 3) for name in TASKS}
    loss = feature_tasks_loss(disc(), tasks, sizes, weight=0.0)
    embeddings, labels = (tf.constant(part) for part in batch(14, 2))
    with tf.GradientTape() as tape:
        tape.watch(embeddings)
        value = loss(embeddings, labels, training=True)
    gradient = tape.gradient(value, embeddings).numpy()
    first = tf.constant(embeddings[:SIZE, :5])
    with tf.GradientTape() as tape:
        tape.watch(first)
        plain = disc()(first, LABELS)
    np.testing.assert_array_equal(gradient[:SIZE, :5], tape.gradient(plain, first))
    gradient[:SIZE, :5] = 0.0
    assert not gradient.any()


@pytest.mark.parametrize(
    ("dim", "number", "expected"),
    [(128, 2, (64, 64)), (128, 3, (44, 42, 42)), (128, 4, (32,) * 4), (512, 3, (172, 170, 170)), (5, 5, (1,) * 5)],
)
def test_sizes_add_up_with_the_rest_first(dim, number, expected):
    assert feature_sizes(dim, number) == expected
    assert sum(expected) == dim


def test_what_does_not_fit_is_refused():
    shared = {"shared": task("shared", 4)}
    for arguments, message in (
        (({}, (4,)), "tasks: received .* expected at least one of shared, intra, dance"),
        (({"groups": disc()}, (4, 4)), "tasks: received .*groups.*, expected at least one of shared, intra, dance"),
        ((shared, (4, 4, 4)), "sizes: received .* expected 2 numbers, for disc, shared"),
    ):
        with pytest.raises(InvalidInput, match=message):
            feature_tasks_loss(disc(), *arguments)
    with pytest.raises(InvalidInput, match="in_turn: received .*intra.* expected shared as the only task"):
        feature_tasks_loss(disc(), {"intra": task("intra", 4)}, (4, 4), in_turn=True)
    with pytest.raises(InvalidInput, match="num_features: received 6, expected 1 to 5, the components"):
        feature_sizes(5, 6)
