import collections
import itertools

import numpy as np
import pytest

from common.data import ClassBalancedBatches, MPerClassBatches, RandomPairBatches
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
def test_what_cannot_be_drawn_is_refused(labels, arguments, message):
    with pytest.raises(InvalidInput, match=message):
        ClassBalancedBatches(np.asarray(labels), *arguments)


def test_a_class_with_one_image_will_do_without_pairs():
    labels = np.asarray([3, 3, 17, 4, 4])
    assert ClassBalancedBatches(labels, classes_per_batch=3, samples_per_class=1, seed=0).epoch(0).shape == (2, 3)
