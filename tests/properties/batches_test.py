"""Samplers and splits, whatever the class sizes."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from common.data import ClassBalancedBatches

NUM_EXAMPLES = 150


@st.composite
def samplers(draw):
    """A sampler and its labels: classes of 2 to 9 examples under any names, in any order."""
    sizes = draw(st.lists(st.integers(2, 9), min_size=1, max_size=9))
    names = draw(st.lists(st.integers(-(2**62), 2**62), min_size=len(sizes), max_size=len(sizes), unique=True))
    labels = np.repeat(np.array(names), sizes)
    labels = np.random.default_rng(draw(st.integers(0, 9))).permutation(labels)
    classes, samples = draw(st.integers(1, len(sizes))), draw(st.integers(1, 5))
    seed, interleaved = draw(st.integers(0, 2**32)), draw(st.booleans())
    return ClassBalancedBatches(labels, classes, samples, seed, interleaved=interleaved), labels


@settings(max_examples=NUM_EXAMPLES)
@given(sampler=samplers(), epoch=st.integers(0, 1000))
def test_every_batch_is_balanced_and_repeats_only_what_it_must(sampler, epoch):
    batches, labels = sampler
    indices = batches.epoch(epoch)
    assert indices.shape == (batches.batches_per_epoch, batches.batch_size)
    sizes = dict(zip(*np.unique(labels, return_counts=True)))
    for batch in indices:
        by_class = batch[np.argsort(batches.class_places, kind="stable")]
        groups = by_class.reshape(batches.classes_per_batch, batches.samples_per_class)
        assert (labels[groups] == labels[groups[:, :1]]).all()
        assert len(set(labels[groups[:, 0]])) == batches.classes_per_batch
        for group in groups:
            size, counts = sizes[labels[group[0]]], np.unique(group, return_counts=True)[1]
            # A class that is too small goes through so many shuffled queues at most, with an example once in each.
            num_queues = 1 if size >= batches.samples_per_class else 1 - (1 - batches.samples_per_class) // size
            assert counts.max() <= num_queues
