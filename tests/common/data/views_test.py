import numpy as np
import pytest
import tensorflow as tf

from common.data import (
    ClassBalancedBatches,
    Dataset,
    Examples,
    Identity,
    MPerClassBatches,
    RandomShift,
    TwoViews,
    evaluation_batches,
    fixed_views,
    training_batches,
    view_batches,
    view_numbers,
)
from common.data.input_pipeline import example_seeds
from common.data.philox import uniform_of_each
from common.errors import InvalidInput

SHIFT = RandomShift(3, flip=True)


def dataset():
    generator = np.random.default_rng(0)
    labels = np.repeat(np.arange(6), 4)
    images = generator.integers(0, 256, (len(labels), 9, 9, 1), dtype=np.uint8)
    examples = Examples(labels, inputs=images)
    return Dataset("small", train=examples, test=examples)


def batches_of(examples, start=0, count=12):
    index_batches = ClassBalancedBatches(examples.labels, 2, 2, seed=1)
    drawn = training_batches(examples, index_batches, SHIFT, seed=4, start_step=start)
    indices = [indices for _, (_, indices) in zip(range(count), index_batches.from_step(start))]
    return indices, [images.numpy() for images, _ in drawn.take(count)]


def views_of(examples):
    count = examples.view_seeds.shape[1]
    indices = np.repeat(np.arange(len(examples)), count)
    drawn = view_batches(examples, SHIFT, 7, indices, examples.view_seeds.reshape(-1, 2))
    return np.concatenate([images.numpy() for images in drawn]).reshape(len(examples), count, 9, 9, 1)


def test_training_sees_the_views_that_are_read_in_order_and_all_of_them():
    examples = fixed_views(dataset(), 2, seed=0).train
    views, seen = views_of(examples), set()
    for indices, images in zip(*batches_of(examples, count=40)):
        for index, image in zip(indices, images):
            (view, *_) = [number for number in range(2) if np.array_equal(views[index, number], image)]
            seen.add((index, view))
    assert len(seen) == 2 * len(examples)


def test_a_fold_has_the_views_that_its_images_have_in_the_whole():
    whole = fixed_views(dataset(), 3, seed=0).train
    fold = whole.select_classes([4, 1])
    np.testing.assert_array_equal(views_of(fold), views_of(whole)[np.isin(whole.labels, [1, 4])])


def test_views_depend_on_the_seed_and_on_the_image_and_are_no_part_of_evaluation():
    examples, other = (fixed_views(dataset(), 2, seed=seed).train for seed in (0, 1))
    first = examples.view_seeds
    assert not np.array_equal(first, other.view_seeds)
    assert len(np.unique(first.reshape(-1, 2), axis=0)) == first.shape[0] * first.shape[1]
    np.testing.assert_array_equal(first, fixed_views(dataset(), 2, seed=0).train.view_seeds)
    images = np.concatenate([batch.numpy() for batch in evaluation_batches(examples, Identity(), 5)])
    np.testing.assert_array_equal(images, examples.inputs)
    seeds = np.random.default_rng(0).integers(0, 2**31 - 1, (30_000, 2), dtype=np.int32)
    assert np.all(np.abs(np.bincount(view_numbers(seeds, 3), minlength=3) - 10_000) < 500)
    with pytest.raises(InvalidInput, match="views"):
        fixed_views(dataset(), 0, seed=0)


LABELS = np.repeat(np.arange(6), 5)


@pytest.mark.parametrize("sampler", [ClassBalancedBatches, MPerClassBatches])
def test_batches_hold_the_sampler_s_twice(sampler):
    plain = sampler(LABELS, 3, 2, seed=1)
    views = TwoViews(plain)
    assert (views.batch_size, views.batches_per_epoch) == (12, plain.batches_per_epoch)
    for half in np.split(views.epoch(3), 2, axis=1):
        np.testing.assert_array_equal(half, plain.epoch(3))
    drawn, expected = views.from_step(plain.batches_per_epoch + 1), plain.from_step(plain.batches_per_epoch + 1)
    for _ in range(4):
        (epoch, indices), (plain_epoch, plain_indices) = next(drawn), next(expected)
        assert epoch == plain_epoch
        np.testing.assert_array_equal(indices, np.tile(plain_indices, 2))


def test_the_first_half_draws_what_a_batch_without_views_draws():
    for batch_size in (1, 6, 56):
        both = example_seeds(3, 2, 5, 2 * batch_size)
        np.testing.assert_array_equal(both[:batch_size], example_seeds(3, 2, 5, batch_size))
        assert (both[:batch_size] != both[batch_size:]).all()


EDGES = [(0, 0), (0, 1), (1, 0), (2**31 - 1, 2**31 - 1), (-1, -5), (-(2**31), 7)]


@pytest.mark.parametrize("num_draws", [1, 4, 23])
def test_every_pair_has_the_numbers_that_tensorflow_gives_it(num_draws):
    drawn = np.random.default_rng(0).integers(-(2**31), 2**31, (200, 2))
    seeds = np.concatenate([drawn, EDGES]).astype(np.int32)
    expected = [tf.random.stateless_uniform([num_draws], seed, alg="philox").numpy() for seed in seeds]
    np.testing.assert_array_equal(uniform_of_each(tf.constant(seeds), num_draws).numpy(), expected)
