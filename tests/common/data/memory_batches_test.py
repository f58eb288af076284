import itertools

import numpy as np
import pytest
from scipy import linalg, spatial, stats

from common.data import MemoryBatches, TwoViews, memory_batches
from common.data.memory_batches import (
    CRITERIA,
    frechet_distances,
    greedy_coreset,
    histogram_distances,
    nearest_of_classes,
)
from common.errors import InvalidInput

LABELS = np.random.default_rng(0).permutation(np.repeat([7, 2**40, 3, 11, 5], [4, 9, 6, 2, 12]))
POINTS = np.random.default_rng(1).normal(size=(len(LABELS), 3)) * [1.0, 3.0, 0.2]


def sampler(criterion, memory=POINTS, samples=2):
    batches = MemoryBatches(LABELS, 3, samples, seed=2, criterion=criterion)
    if memory is not None:
        batches.remember(memory)
    return batches


def test_a_coreset_takes_the_farthest_example_of_a_new_class():
    classes = np.arange(33) % 6
    for first in range(33):
        chosen = [first]
        while len(chosen) < 6:
            free = [i for i in range(33) if classes[i] not in classes[chosen]]
            chosen.append(max(free, key=lambda i: min(np.linalg.norm(POINTS[i] - POINTS[j]) for j in chosen)))
        np.testing.assert_array_equal(greedy_coreset(POINTS, classes, 6, first), chosen)


def test_hard_negatives_are_the_nearest_of_each_other_class():
    for first in range(33):
        nearest = {}
        for place in sorted(range(33), key=lambda i: np.linalg.norm(POINTS[i] - POINTS[first])):
            nearest.setdefault(LABELS[place], place)
        for count in (1, 3, 5):
            found = nearest_of_classes(POINTS, LABELS, count, first)
            np.testing.assert_array_equal(found, list(nearest.values())[:count])
    twins = np.zeros((4, 2))  # an anchor is itself beside equal points
    np.testing.assert_array_equal(nearest_of_classes(twins, np.array([0, 1, 1, 0]), 2, 3), [3, 1])


def test_hard_negatives_are_searched_in_the_whole_memory(monkeypatch):
    monkeypatch.setattr(memory_batches, "_POOL", 2)
    anchors = set()
    for batch in np.concatenate([sampler("hard_negatives").epoch(epoch) for epoch in range(60)]):
        np.testing.assert_array_equal(batch[::2], nearest_of_classes(POINTS, LABELS, 3, batch[0]))
        anchors.add(batch[0])
    assert len(anchors) == 33


def test_distances_of_distributions_are_scipys():
    few = np.random.default_rng(3).normal(size=(9, 3)) + 0.5
    distances = [spatial.distance.pdist(each) for each in (few, POINTS)]
    low, high = distances[1].min(), distances[1].max()
    weights = [np.histogram(np.clip(each, low, high), 50, (low, high))[0] for each in distances]
    centers = low + (high - low) / 50 * (np.arange(50) + 0.5)
    expected = stats.wasserstein_distance(centers, centers, *weights)
    assert histogram_distances([POINTS, few], POINTS)[1] == pytest.approx(expected, rel=1e-12)
    covariances = [np.cov(each, rowvar=False) for each in (few, POINTS)]
    shift = few.mean(axis=0) - POINTS.mean(axis=0)
    root = linalg.sqrtm(covariances[0] @ covariances[1]).real
    expected = shift @ shift + np.trace(covariances[0] + covariances[1] - 2 * root)
    assert frechet_distances([POINTS, few], POINTS)[1] == pytest.approx(expected, rel=1e-10)
    for distances_from in (histogram_distances, frechet_distances):
        assert distances_from([POINTS], POINTS[::-1])[0] == pytest.approx(0.0, abs=1e-9)
    wide = np.random.default_rng(4).normal(size=(5, 40))  # fewer examples than dimensions
    assert frechet_distances([wide], wide + 2.0)[0] == pytest.approx(160.0)


@pytest.mark.parametrize("criterion", CRITERIA)
@pytest.mark.parametrize(("samples", "pool"), [(2, 1024), (1, 20), (4, 2)])
def test_a_batch_has_so_many_of_each_of_different_classes(criterion, samples, pool, monkeypatch):
    monkeypatch.setattr(memory_batches, "_POOL", pool)  # two examples are of too few classes for a coreset
    batches = sampler(criterion, samples=samples)
    for batch in np.concatenate([batches.epoch(epoch) for epoch in range(10)]):
        groups = LABELS[batch].reshape(3, samples)
        assert (groups == groups[:, :1]).all()
        assert len(set(groups[:, 0])) == 3
        for group in batch.reshape(3, samples):
            assert len(set(group)) == min(samples, (LABELS[group[0]] == LABELS).sum())


@pytest.mark.parametrize("criterion", CRITERIA)
def test_batches_are_functions_of_memory_seed_and_step(criterion):
    batches, unlike = sampler(criterion), sampler(criterion, POINTS[::-1])
    whole = np.concatenate([batches.epoch(epoch) for epoch in range(4)])
    for step in (0, 3, batches.batches_per_epoch):
        drawn = [(epoch, indices) for epoch, indices in itertools.islice(batches.from_step(step), 6)]
        np.testing.assert_array_equal([indices for _, indices in drawn], whole[step : step + 6])
        assert [epoch for epoch, _ in drawn] == [s // batches.batches_per_epoch for s in range(step, step + 6)]
    assert (whole != np.concatenate([unlike.epoch(epoch) for epoch in range(4)])).any()
    twice = TwoViews(batches)
    np.testing.assert_array_equal(next(twice.from_step(2))[1], np.tile(whole[2], 2))


@pytest.mark.parametrize("criterion", ["distances", "frechet"])
def test_chosen_batches_are_nearer_to_the_whole_than_random_ones(criterion):
    distances = {"distances": histogram_distances, "frechet": frechet_distances}[criterion]
    means = []
    for memory in (None, POINTS):
        epochs = [sampler(criterion, memory, samples=4).epoch(epoch) for epoch in range(40)]
        means.append(distances([POINTS[batch] for batch in np.concatenate(epochs)], POINTS).mean())
    assert means[1] < 0.8 * means[0]


def test_a_coreset_spreads_farther_than_random_batches():
    def spread(memory):
        batches = np.concatenate([sampler("coreset", memory, samples=1).epoch(epoch) for epoch in range(40)])
        return np.mean([spatial.distance.pdist(POINTS[batch]).min() for batch in batches])

    assert spread(POINTS) > 1.5 * spread(None)


def test_errors_tell_what_was_expected():
    with pytest.raises(InvalidInput, match=r"embeddings: received \[32, 3\], expected finite numbers \[33, dim\]"):
        sampler("coreset", POINTS[1:])
    with pytest.raises(InvalidInput, match="NaN or infinity"):
        sampler("frechet", np.full((33, 2), np.inf))
    with pytest.raises(InvalidInput, match="criterion: received 'far'"):
        sampler("far")
