import numpy as np
import pytest
from scipy import stats

from common.data import ClassBalancedBatches, HierarchicalBatches, MPerClassBatches, RandomPairBatches
from common.errors import InvalidInput

LABELS = np.random.default_rng(0).permutation(np.repeat([7, 2**40, 3, 11, 5], [4, 9, 6, 2, 12]))


@pytest.mark.parametrize("samples", [1, 2, 4])
def test_a_batch_has_so_many_of_each_of_different_classes(samples):
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


def test_in_any_class_batches_classes_come_up_as_often_as_they_have_examples():
    batches = RandomPairBatches(LABELS, 11, seed=0)
    drawn = np.concatenate([batches.epoch(epoch)[:, :-1] for epoch in range(1000)]).ravel()
    counts = np.bincount(drawn)
    assert abs(counts / counts.mean() - 1).max() < 0.1


def test_what_cannot_be_drawn_is_refused():
    with pytest.raises(InvalidInput, match="classes_per_batch: received 6, expected at most .* classes, 5"):
        MPerClassBatches(LABELS, 6, 2, seed=0)
    with pytest.raises(InvalidInput, match="1 classes with one image"):
        MPerClassBatches([1, 1, 2], 2, 2, seed=0)
    with pytest.raises(InvalidInput, match="batch_size: received 34, expected 2 up to the number .* 33"):
        RandomPairBatches(LABELS, 34, seed=0)
    with pytest.raises(InvalidInput, match="1 classes with one image"):
        RandomPairBatches([1, 1, 2], 2, seed=0)
