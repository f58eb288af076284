import collections
import itertools

import numpy as np
import pytest
from scipy import linalg, spatial, stats

from common.data import (
    ClassBalancedBatches,
    HierarchicalBatches,
    MemoryBatches,
    MPerClassBatches,
    RandomPairBatches,
    TwoViews,
    memory_batches,
)
from common.data.memory_batches import (
    CRITERIA,
    frechet_distances,
    greedy_coreset,
    histogram_distances,
    nearest_of_classes,
)
from common.errors import InvalidInput


def _labels(*sizes):
    return np.repeat(np.arange(len(sizes)), sizes)


@pytest.mark.parametrize("seed", range(20))
def test_every_batch_is_balanced_and_repeats_only_what_it_must(seed):
    """Of classes of 2 to 9 examples under any names, in any order."""
    rng = np.random.default_rng(seed)
    names = rng.integers(-(2**62), 2**62, rng.integers(1, 10))
    labels = rng.permutation(np.repeat(names, rng.integers(2, 10, len(names))))
    sizes, classes, samples = collections.Counter(labels), int(rng.integers(1, len(names) + 1)), int(rng.integers(1, 6))
    batches = ClassBalancedBatches(labels, classes, samples, seed, interleaved=bool(seed % 2))
    indices = batches.epoch(seed)
    assert indices.shape == (batches.batches_per_epoch, batches.batch_size)
    for batch in indices:
        groups = batch[np.argsort(batches.class_places, kind="stable")].reshape(classes, samples)
        assert (labels[groups] == labels[groups[:, :1]]).all()
        assert len(set(labels[groups[:, 0]])) == classes
        for group in groups:
            # A class that is too small goes through so many shuffled queues at most, with an example once in each.
            size = sizes[labels[group[0]]]
            num_queues = 1 if size >= samples else 1 - (1 - samples) // size
            assert np.unique(group, return_counts=True)[1].max() <= num_queues


def test_interleaving_changes_the_order_within_batches_and_nothing_else():
    labels = _labels(5, 6, 7, 4, 9)
    plain, interleaved = (ClassBalancedBatches(labels, 2, 3, 4, interleaved=value) for value in (False, True))
    np.testing.assert_array_equal(
        interleaved.epoch(3), plain.epoch(3).reshape(-1, 2, 3).swapaxes(1, 2).reshape(plain.epoch(3).shape)
    )


def test_a_blind_refill_may_repeat_an_example_within_a_group():
    def repeats(size, **options):
        batches = ClassBalancedBatches(_labels(size, 41), classes_per_batch=2, samples_per_class=4, seed=5, **options)
        groups = np.concatenate([batches.epoch(epoch) for epoch in range(50)]).reshape(-1, 4)
        groups = groups[groups[:, 0] < size]
        return np.mean([len(np.unique(group)) < 4 for group in groups])

    assert repeats(5) == repeats(8, refills_blindly=True) == 0
    # The six groups of an epoch find 5, 1, 2, 3, 4 and 5 examples in the queue of five; the rest of each four come from
    # a new queue. The chance that these are others: C(4, 3) / C(5, 3), C(3, 2) / C(5, 2), C(2, 1) / C(5, 1).
    distinct = [1, 2 / 5, 3 / 10, 2 / 5, 1, 1]
    assert abs(repeats(5, refills_blindly=True) - (1 - np.mean(distinct))) < 0.1


def test_an_epoch_has_the_rounds_of_the_mean_class_size():
    labels = _labels(10, 2, 3, 4, 6, 2, 9)  # mean 36 / 7 = 5.14..., three rounds of two
    batches = ClassBalancedBatches(labels, classes_per_batch=3, samples_per_class=2, seed=0)
    assert batches.batches_per_epoch == 3 * 2
    assert batches.epoch(0).shape == (6, 6)
    assert batches.epoch(0).dtype == np.int64
    rounds = labels[batches.epoch(0)].reshape(3, -1)[:, ::2]
    assert all(len(np.unique(classes)) == 6 for classes in rounds)


def test_every_class_has_its_turn_where_chunks_leave_some_out():
    batches = ClassBalancedBatches(_labels(*[4] * 10), classes_per_batch=4, samples_per_class=2, seed=0)
    drawn = np.concatenate([batches.epoch(epoch).ravel() for epoch in range(50)]) // 4
    assert np.bincount(drawn, minlength=10).min() > 0.7 * len(drawn) / 10


def test_a_class_draws_without_replacement_until_its_queue_is_empty():
    labels = _labels(12, 12, 4)  # 28 / 3 / 2: five rounds, ten draws of each class
    batches = ClassBalancedBatches(labels, classes_per_batch=3, samples_per_class=2, seed=3)
    for epoch in range(20):
        drawn = batches.epoch(epoch).ravel()
        for label in (0, 1):
            own = drawn[labels[drawn] == label]
            assert len(own) == len(np.unique(own)) == 10
        small = drawn[labels[drawn] == 2]
        assert len(np.unique(small[:4])) == len(np.unique(small[4:8])) == 4


def test_refilled_queues_give_every_example_equal_chances():
    batches = ClassBalancedBatches(_labels(5, 27), classes_per_batch=2, samples_per_class=3, seed=0)
    drawn = np.concatenate([batches.epoch(epoch).reshape(-1, 2, 3) for epoch in range(2000)])
    counts = np.bincount(drawn[drawn < 5], minlength=5)
    assert counts.sum() == 2000 * 6 * 3
    assert abs(counts / counts.mean() - 1).max() < 0.02
    last_group = np.bincount(drawn.reshape(2000, 6, 6)[:, 5][drawn.reshape(2000, 6, 6)[:, 5] < 5], minlength=5)
    assert abs(last_group / last_group.mean() - 1).max() < 0.1


@pytest.mark.parametrize(
    ("sampler", "arguments"), [(ClassBalancedBatches, (3, 2)), (MPerClassBatches, (3, 2)), (RandomPairBatches, (6,))]
)
def test_epochs_are_functions_of_seed_and_number_and_continue_anywhere(sampler, arguments):
    labels = _labels(2, 4, 6, 9, 12)
    batches, same, other = (sampler(labels, *arguments, seed) for seed in (7, 7, 8))
    same.epoch(0)
    np.testing.assert_array_equal(batches.epoch(5), same.epoch(5))
    for different in (batches.epoch(6), other.epoch(4), other.epoch(5)):
        assert not np.array_equal(batches.epoch(5), different)
    whole = list(itertools.islice(batches.from_step(0), 14))
    for step in range(13):
        for (epoch, indices), (resumed_epoch, resumed) in zip(whole[step:], batches.from_step(step)):
            assert epoch == resumed_epoch
            np.testing.assert_array_equal(indices, resumed)


@pytest.mark.parametrize(
    ("labels", "arguments", "message"),
    [
        ([3, 3, 17, 4, 4], (2, 2, 0), r"1 classes with one image \(label 17\)"),
        ([-1, -1, 4, 4], (2, 2, 0), "-1 for 2 of 4 examples.*Leave examples without one out"),
        (_labels(4, 4, 4), (5, 2, 0), "received 5, expected at most the number of training classes, 3"),
        *((_labels(4, 4), numbers, "expected a number greater than") for numbers in ((0, 2, 0), (2, 0, 0), (2, 2, -1))),
    ],
)
def test_batches_what_cannot_be_drawn_is_refused(labels, arguments, message):
    with pytest.raises(InvalidInput, match=message):
        ClassBalancedBatches(np.asarray(labels), *arguments)


def test_a_class_with_one_image_will_do_without_pairs():
    labels = np.asarray([3, 3, 17, 4, 4])
    assert ClassBalancedBatches(labels, classes_per_batch=3, samples_per_class=1, seed=0).epoch(0).shape == (2, 3)


LABELS = np.random.default_rng(0).permutation(np.repeat([7, 2**40, 3, 11, 5], [4, 9, 6, 2, 12]))


@pytest.mark.parametrize("samples", [1, 2, 4])
def test_random_batches_a_batch_has_so_many_of_each_of_different_classes(samples):
    batches = MPerClassBatches(LABELS, classes_per_batch=3, samples_per_class=samples, seed=1)
    assert batches.epoch(0).shape == (33 // (3 * samples), 3 * samples) == (batches.batches_per_epoch, 3 * samples)
    sizes = dict(zip(*np.unique(LABELS, return_counts=True)))
    for epoch in range(20):
        for batch in batches.epoch(epoch):
            groups = LABELS[batch].reshape(3, samples)
            assert (groups == groups[:, :1]).all()
            assert len(set(groups[:, 0])) == 3
            for group in batch.reshape(3, samples):
                assert len(set(group)) == min(samples, sizes[LABELS[group[0]]])


def test_classes_and_examples_have_equal_chances():
    batches = MPerClassBatches(LABELS, classes_per_batch=2, samples_per_class=2, seed=3)
    drawn = np.concatenate([batches.epoch(epoch) for epoch in range(1500)]).ravel()
    per_class = [np.bincount(drawn, minlength=33)[label == LABELS] for label in np.unique(LABELS)]
    num_groups = np.array([counts.sum() // 2 for counts in per_class])
    assert abs(num_groups / num_groups.mean() - 1).max() < 0.05
    assert all(stats.chisquare(counts).pvalue > 0.001 for counts in per_class)


@pytest.mark.parametrize("sampler", [ClassBalancedBatches, MPerClassBatches])
def test_an_image_is_drawn_by_each_of_its_labels(sampler):
    several = np.random.default_rng(0).random((40, 6)) < 0.2
    several[:, 5] = np.arange(40) == 3  # one image alone has this label
    batches = sampler(several, 3, 2, seed=0)
    drawn = set()
    for batch in np.concatenate([batches.epoch(epoch) for epoch in range(60)]):
        for pair in batch.reshape(3, 2):
            assert pair[0] != pair[1]
            assert several[pair, :5].all(axis=0).any()  # a label in common, never the one of a single image
            drawn.update(pair)
    assert drawn == set(np.flatnonzero(several[:, :5].any(axis=1)))
    one_each = np.random.default_rng(1).integers(0, 4, 40)
    ids, bools = (sampler(labels, 3, 2, seed=0).epoch(2) for labels in (one_each, np.eye(4, dtype=bool)[one_each]))
    np.testing.assert_array_equal(ids, bools)


def test_batches_of_few_superclasses():
    classes = np.repeat(np.arange(10), 4)
    superclasses = np.array([0, 1, 0, 1, 0, 1, 2, 2, 2, 3])[classes]  # the last one has too few classes
    batches = HierarchicalBatches(np.stack([classes, superclasses], axis=1), 2, 3, samples_per_class=2, seed=0)
    drawn = np.concatenate([batches.epoch(epoch) for epoch in range(20)])
    for batch in drawn:
        groups, above = classes[batch].reshape(6, 2), superclasses[batch].reshape(2, 6)
        assert (groups[:, 0] == groups[:, 1]).all()
        assert len(set(groups[:, 0])) == 6
        assert (above == above[:, :1]).all()
        assert above[0, 0] != above[1, 0]
    assert set(superclasses[drawn].ravel()) == {0, 1, 2}


def test_superclasses_that_do_not_fit():
    classes = np.repeat(np.arange(4), 2)
    with pytest.raises(InvalidInput, match="expected each class in one superclass"):
        HierarchicalBatches(np.stack([classes, np.arange(8)], axis=1), 1, 2, 2, seed=0)
    with pytest.raises(InvalidInput, match="at most the number of superclasses with 3 classes, 0"):
        HierarchicalBatches(np.stack([classes, classes // 2], axis=1), 1, 3, 2, seed=0)


def test_any_class_batches_have_a_pair_and_no_example_twice():
    labels = np.repeat(np.arange(100), 2)
    batches = RandomPairBatches(labels, 8, seed=0)
    assert batches.epoch(0).shape == (25, 8)
    for epoch in range(20):
        for batch in batches.epoch(epoch):
            assert len(set(batch)) == 8
            assert labels[batch[-1]] in labels[batch[:-1]]
    whole = RandomPairBatches([0, 0, 1, 1], 3, seed=0)  # a class may be complete before the last place
    assert all(len(set(batch)) == 3 for epoch in range(50) for batch in whole.epoch(epoch))


def test_random_batches_what_cannot_be_drawn_is_refused():
    with pytest.raises(InvalidInput, match="classes_per_batch: received 6, expected at most .* classes, 5"):
        MPerClassBatches(LABELS, 6, 2, seed=0)
    with pytest.raises(InvalidInput, match="1 classes with one image"):
        MPerClassBatches([1, 1, 2], 2, 2, seed=0)
    with pytest.raises(InvalidInput, match="batch_size: received 34, expected 2 up to the number .* 33"):
        RandomPairBatches(LABELS, 34, seed=0)
    with pytest.raises(InvalidInput, match="1 classes with one image"):
        RandomPairBatches([1, 1, 2], 2, seed=0)


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
def test_memory_batches_a_batch_has_so_many_of_each_of_different_classes(criterion, samples, pool, monkeypatch):
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


def test_errors_tell_what_was_expected():
    with pytest.raises(InvalidInput, match=r"embeddings: received \[32, 3\], expected finite numbers \[33, dim\]"):
        sampler("coreset", POINTS[1:])
    with pytest.raises(InvalidInput, match="NaN or infinity"):
        sampler("frechet", np.full((33, 2), np.inf))
    with pytest.raises(InvalidInput, match="criterion: received 'far'"):
        sampler("far")
