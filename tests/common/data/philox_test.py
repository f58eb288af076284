import numpy as np
import pytest
import tensorflow as tf

from common.data.philox import uniform_of_each

EDGES = [(0, 0), (0, 1), (1, 0), (2**31 - 1, 2**31 - 1), (-1, -5), (-(2**31), 7)]


@pytest.mark.parametrize("num_draws", [1, 4, 23])
def test_every_pair_has_the_numbers_that_tensorflow_gives_it(num_draws):
    drawn = np.random.default_rng(0).integers(-(2**31), 2**31, (200, 2))
    seeds = np.concatenate([drawn, EDGES]).astype(np.int32)
    expected = [tf.random.stateless_uniform([num_draws], seed, alg="philox").numpy() for seed in seeds]
    np.testing.assert_array_equal(uniform_of_each(tf.constant(seeds), num_draws).numpy(), expected)


def test_in_a_graph_of_an_unknown_batch():
    traced = tf.function(lambda seeds: uniform_of_each(seeds, 23), [tf.TensorSpec([None, 2], tf.int32)])
    seeds = np.array(EDGES, np.int32)
    np.testing.assert_array_equal(traced(seeds).numpy(), uniform_of_each(tf.constant(seeds), 23).numpy())
    assert traced(seeds[:0]).shape == (0, 23)
