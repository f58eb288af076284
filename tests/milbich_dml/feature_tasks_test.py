import itertools

import numpy as np
import pytest

from common.losses import MarginLoss, MinedLoss, loss_of_kind
from common.references import References
from milbich_dml import (
    DecorrelationLoss,
    DistanceAdaptedContrastLoss,
    GroupLabelsLoss,
    feature_sizes,
    feature_tasks_loss,
)
from milbich_dml.feature_tasks import TASKS

OF_CLASSES = ("disc_2", "shared", "intra", "dance")
SUBSETS = [subset for number in (1, 3) for subset in itertools.combinations(OF_CLASSES, number)]
SIZE, LABELS = 8, np.arange(8) % 3


def disc():
    return MinedLoss(MarginLoss(), seed=1)


def task(name, dim):
    if name == "dance":
        return DistanceAdaptedContrastLoss(2 * SIZE, dim, 0.2)
    triplets = {"shared": ["inter_class"], "intra": ["intra_class"]}.get(name, [])
    return MinedLoss(MarginLoss(), *triplets, seed=TASKS.index(name) + 2)


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


def test_the_first_feature_is_predicted_from_each_other_one():
    tasks = {name: task(name, 4) for name in ("shared", "intra", "dance")}
    loss = feature_tasks_loss(disc(), tasks, (5, 4, 4, 4), decorrelation=5.0, hidden=3)
    decorrelation = loss_of_kind(loss, DecorrelationLoss)
    assert decorrelation.pairs == ((0, 1), (0, 2), (0, 3))
    kernels = [[tuple(weight.shape) for weight in network] for network in decorrelation.networks]
    assert kernels == [[(4, 3), (3,), (3, 5), (5,)]] * 3


def step(loss, embeddings, number):
    """The value of a mined loss at a training step."""
    loss.step.assign(number)
    return float(loss(embeddings, LABELS))


GROUPS = np.array([0, 1, 1, 0, 2, 2, 1, 0, 2])
PLACES = np.array([8, 0, 3, 1, 5, 4, 7, 2])


def groups_of(dim):
    loss = GroupLabelsLoss(task("intra", dim), len(GROUPS))
    loss.set_groups(GROUPS)
    return loss


@pytest.mark.parametrize("in_turn", [False, True])
@pytest.mark.parametrize("others", [(), ("intra", "dance")], ids="+".join)
def test_groups_see_places_and_all_other_tasks_classes(others, in_turn):
    """Beside the sum of the same tasks over classes alone, and one of group labels."""
    if in_turn and others:
        pytest.skip("turns are of two tasks")
    count, num_views = 2 + len(others), 2 if others else 1
    sizes = (4,) * count
    tasks = {name: task(name, 4) for name in others}
    loss = feature_tasks_loss(disc(), {**tasks, "groups": groups_of(4)}, sizes, weight=0.3, in_turn=in_turn)
    embeddings, labels = batch(4 * count, num_views)
    rows = np.stack([labels, np.tile(PLACES, num_views)], axis=1)
    values = [float(loss(embeddings, rows, training=True)) for _ in range(2)]
    apart = task("intra", 4)
    own = [float(apart(embeddings[:SIZE, 4:8], GROUPS[PLACES], training=True)) for _ in range(2)]
    assert min(own) > 0
    if in_turn:
        np.testing.assert_allclose(values, [step(disc(), embeddings[:, :4], 0), own[0]], rtol=1e-5)
        return
    if others:
        rest = feature_tasks_loss(disc(), {name: task(name, 4) for name in others}, (4, 4, 4), weight=0.3)
        without = np.delete(embeddings, np.arange(4, 8), axis=1)
        expected = [float(rest(without, labels, training=True)) for _ in range(2)]
    else:
        expected = [step(disc(), embeddings[:, :4], number) for number in range(2)]
    np.testing.assert_allclose(values, np.add(expected, np.multiply(0.3, own)), rtol=1e-5)


@pytest.mark.parametrize(
    ("dim", "number", "expected"),
    [(128, 2, (64, 64)), (128, 3, (44, 42, 42)), (128, 4, (32,) * 4), (512, 3, (172, 170, 170)), (5, 5, (1,) * 5)],
)
def test_sizes_add_up_with_the_rest_first(dim, number, expected):
    assert feature_sizes(dim, number) == expected
    assert sum(expected) == dim
