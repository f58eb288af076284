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
    """What `tf.random.stateless_uniform([num_draws], seed, alg="philox")` gives for each seed pair, to the bit.

    That operator takes one pair, and a loop over the images of a batch takes longer than all else in the augmentation
    of small ones.

    Reference: Salmon et al., Parallel random numbers: as easy as 1, 2, 3 (SC 2011), Philox4x32-10; TensorFlow's kernel
    makes key and counter of a pair by one block of it.

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
    """A block of four numbers for each counter `[4, ...]` and key `[2, ...]`, all of 32 bits, as uint64 `[4, ...]`."""
    first, second, third, fourth = tf.unstack(counter)
    for number in range(_NUM_ROUNDS):
        step = np.reshape(np.uint64(number) * _KEY_STEPS, [2, *(1 for _ in key.shape[1:])])
        keys = tf.bitwise.bitwise_and(key + step, _LOW)
        upper, lower = first * _MULTIPLIERS[0], third * _MULTIPLIERS[1]
        first = _xor(_high(lower), second, keys[0])
        third = _xor(_high(upper), fourth, keys[1])
        second, fourth = (tf.bitwise.bitwise_and(product, _LOW) for product in (lower, upper))
    return tf.stack([first, second, third, fourth])


def _high(product: tf.Tensor) -> tf.Tensor:
    return tf.bitwise.right_shift(product, np.uint64(32))


def _xor(first: tf.Tensor, second: tf.Tensor, third: tf.Tensor) -> tf.Tensor:
    return tf.bitwise.bitwise_xor(tf.bitwise.bitwise_xor(first, second), third)
