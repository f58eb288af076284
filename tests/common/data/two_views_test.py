import numpy as np
import pytest

from common.data import ClassBalancedBatches, MPerClassBatches, TwoViews
from common.data.input_pipeline import example_seeds

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
