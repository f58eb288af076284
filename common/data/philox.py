"""TensorFlow's stateless random numbers for every seed pair of a batch at once."""

from __future__ import annotations

import numpy as np
import tensorflow as tf

_LOW = np.uint64(0xFFFFFFFF)
_MULTIPLIERS = np.array([0xD2511F53, 0xCD9E8D57], np.uint64)
_KEY_STEPS = np.array([0x9E3779B9, 0xBB67AE85], np.uint64)
_SCRAMBLING_KEY = np.array([[0x3EC8F720], [0x02461E29]], np.uint64)
_NUM_ROUNDS = 10
_MANTISSA, _ONE = np.uint64(0x7FFFFF), np.uint64(0x3F800000)  # the bits of float32 1.0


def uniform_of_each(seeds: tf.Tensor, num_draws: int) -> tf.Tensor:
    """Return `tf.random.stateless_uniform([num_draws], seed, alg="philox")` per seed pair, bit for bit.

    That operator takes one pair. A loop over the images of a batch would take longer than the rest of the augmentation
    of small ones.

    Args:
        seeds: `[batch, 2]` int32.
        num_draws: numbers of a pair.

    Returns:
        float32 `[batch, num_draws]` in [0, 1).
    """
    halves = tf.bitcast(tf.cast(seeds, tf.int64), tf.uint32)  # [batch, 2, 2], low half first
    counter = tf.transpose(tf.cast(tf.reshape(halves, [-1, 4]), tf.uint64))
    mixed = _blocks(counter, tf.constant(_SCRAMBLING_KEY))
    num_blocks = -(-num_draws // 4)
    numbers = tf.range(num_blocks, dtype=tf.int64)[:, tf.newaxis] + tf.zeros_like(mixed[0], tf.int64)
    numbers = tf.cast(numbers, tf.uint64)  # [blocks, batch]
    high = [tf.zeros_like(numbers) + part for part in (mixed[2], mixed[3])]
    drawn = _blocks(tf.stack([numbers, tf.zeros_like(numbers), *high]), mixed[:2, tf.newaxis])  # [4, blocks, batch]
    bits = tf.bitwise.bitwise_or(tf.bitwise.bitwise_and(drawn, _MANTISSA), _ONE)
    floats = tf.bitcast(tf.cast(bits, tf.uint32), tf.float32) - 1.0
    return tf.reshape(tf.transpose(floats, [2, 1, 0]), [-1, 4 * num_blocks])[:, :num_draws]


def _blocks(counter: tf.Tensor, key: tf.Tensor) -> tf.Tensor:
    """Return four 32-bit numbers, uint64 `[4, ...]`, per counter `[4, ...]` and key.

    The key is `[2, ...]`. The first and the third number go through a round together, and so do the second and the
    fourth: tracing the operators takes longer than the numbers of a batch.
    """
    ones = (1,) * (counter.shape.rank - 1)
    multipliers = tf.constant(_MULTIPLIERS.reshape(2, *ones))
    first, second = counter[::2], counter[1::2]  # [2, ...]
    for number in range(_NUM_ROUNDS):
        keys = tf.bitwise.bitwise_and(key + (np.uint64(number) * _KEY_STEPS).reshape(2, *ones), _LOW)
        products = (first * multipliers)[::-1]
        high = tf.bitwise.right_shift(products, np.uint64(32))
        first = tf.bitwise.bitwise_xor(tf.bitwise.bitwise_xor(high, second), keys)
        second = tf.bitwise.bitwise_and(products, _LOW)
    return tf.stack([first[0], second[0], first[1], second[1]])
