import numpy as np
import pytest
import tensorflow as tf

from common.pooling.weighted_pooling import shares


def test_shares_by_hand():
    weights = tf.constant([[1.0, 3.0, 0.0], [0.0, 0.0, 0.0]])
    np.testing.assert_allclose(shares(weights), [[0.25, 0.75, 0.0], [1 / 3, 1 / 3, 1 / 3]], rtol=1e-6)
    mask = tf.constant([[True, False, True], [False, True, True]])
    np.testing.assert_allclose(shares(weights, mask), [[1.0, 0.0, 0.0], [0.0, 0.5, 0.5]], rtol=1e-6)
    assert np.all(shares(weights, tf.zeros_like(mask)) == 0.0)


@pytest.mark.parametrize("scale", [1e-37, 1e-30, 1e38])
def test_shares_of_tiny_and_huge_weights(scale):
    weights = tf.constant([[scale, 3 * scale]], tf.float32)
    np.testing.assert_allclose(shares(weights), [[0.25, 0.75]], rtol=1e-5)
