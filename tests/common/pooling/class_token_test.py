"""The class token alone."""

import numpy as np
import tensorflow as tf

from common.pooling import ClassTokenPooling


def random_tokens():
    return np.random.default_rng(0).normal(size=(4, 6, 5)).astype(np.float32)


def test_the_first_of_the_tokens_is_taken():
    tokens = random_tokens()
    np.testing.assert_array_equal(ClassTokenPooling()(tokens), tokens[:, 0])
    np.testing.assert_array_equal(ClassTokenPooling()(tokens[:, None, :1]), tokens[:, 0])


def test_nothing_else_has_a_gradient():
    tokens = tf.Variable(random_tokens())
    with tf.GradientTape() as tape:
        total = tf.reduce_sum(ClassTokenPooling()(tokens))
    gradient = np.asarray(tf.convert_to_tensor(tape.gradient(total, tokens)))
    np.testing.assert_array_equal(gradient[:, 0], np.ones((4, 5)))
    np.testing.assert_array_equal(gradient[:, 1:], np.zeros((4, 5, 5)))


def test_a_masked_first_token_is_zero():
    mask = np.ones((4, 6), bool)
    mask[1, 0] = mask[2, 3] = False
    tokens = random_tokens()
    expected = tokens[:, 0] * np.array([1, 0, 1, 1], np.float32)[:, None]
    np.testing.assert_array_equal(ClassTokenPooling()(tokens, mask=mask), expected)
