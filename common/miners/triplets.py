"""Triplets of indices, at most one per anchor, drawn by seeded Gumbel noise."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import tensorflow as tf

from common.references.comparison import Comparison, compare
from common.references.reference_set import Pairs, References


class Triplets(NamedTuple):
    """Indices of anchors in the batch, of positives and negatives in the references."""

    anchors: tf.Tensor  # int64 [triplets], increasing, each at most once
    positives: tf.Tensor  # int64 [triplets]
    negatives: tf.Tensor  # int64 [triplets]


def candidates(embeddings: tf.Tensor, labels: tf.Tensor, references: References | None = None) -> Comparison:
    """Return the pairs that a miner draws from, without gradient.

    Args:
        embeddings: `[batch, dim]`, compared as they are.
        labels: integers, `[batch]`.
        references: None: the batch itself, without self-pairs.
    """
    pairs = compare(tf.stop_gradient(embeddings), labels, references, normalization="none")
    return pairs._replace(references=tf.stop_gradient(pairs.references))


def uniform_of(seed: tf.Tensor, purpose: int, shape: Sequence[int] | tf.Tensor) -> tf.Tensor:
    """Draw from (0, 1) by seed and purpose alone, the same with XLA.

    Args:
        seed: two integers, `[2]`.
        purpose: tells the draws of one seed apart.
        shape: of the result.
    """
    seed = tf.random.experimental.stateless_fold_in(tf.cast(seed, tf.int64), purpose, alg="philox")
    # Of integers XLA makes the same ones, of floats it does not.
    bits = tf.random.stateless_uniform(shape, seed, minval=None, maxval=None, dtype=tf.uint32, alg="philox")
    return (tf.cast(tf.bitwise.right_shift(bits, tf.constant(9, tf.uint32)), tf.float32) + 0.5) * 2.0**-23


def draw(mask: tf.Tensor, seed: tf.Tensor, purpose: int, log_weights: tf.Tensor | None = None) -> tf.Tensor:
    """Draw a column of each row by the Gumbel-max trick; no exponential overflows.

    Args:
        mask: bool, `[rows, columns]`: the candidates.
        seed: two integers, `[2]`.
        purpose: tells the draws of one seed apart.
        log_weights: floats, `[rows, columns]`; None: all alike.

    Returns:
        int64 `[rows]`; arbitrary for rows without any candidate.
    """
    uniform = uniform_of(seed, purpose, tf.shape(mask))
    scores = -tf.math.log(-tf.math.log(uniform))
    if log_weights is not None:
        scores = tf.cast(scores, log_weights.dtype) + log_weights
    return highest(mask, scores)


def highest(mask: tf.Tensor, scores: tf.Tensor) -> tf.Tensor:
    """Return the column of each row's highest score, the first of several.

    Args:
        mask: bool, `[rows, columns]`: the candidates.
        scores: floats, `[rows, columns]`.

    Returns:
        int64 `[rows]`; arbitrary for rows without any candidate.
    """
    scores = tf.where(mask, scores, tf.constant(-np.inf, scores.dtype))
    return tf.argmax(tf.pad(scores, [[0, 0], [0, 1]], constant_values=-np.inf), axis=1)  # also without any column


def triplets_where(kept: tf.Tensor, positives: tf.Tensor, negatives: tf.Tensor) -> Triplets:
    """Return the triplets of the anchors that are kept.

    Args:
        kept: bool, `[batch]`.
        positives: int64, `[batch]`.
        negatives: int64, `[batch]`.
    """
    anchors = tf.where(kept)[:, 0]
    return Triplets(anchors, tf.gather(positives, anchors), tf.gather(negatives, anchors))


def pairs_of(triplets: Triplets, batch_size: int | tf.Tensor, num_references: int | tf.Tensor) -> Pairs:
    """Return the triplets' pairs as masks, at most one of each kind a row.

    Args:
        triplets: with indices below the two sizes.
        batch_size: integer.
        num_references: integer.

    Returns:
        Two bool masks `[batch, references]`.
    """
    shape = tf.cast(tf.stack([batch_size, num_references]), tf.int64)

    def mask_at(columns: tf.Tensor) -> tf.Tensor:
        places = tf.stack([triplets.anchors, columns], axis=1)
        return tf.scatter_nd(places, tf.ones_like(columns), shape) > 0

    return Pairs(mask_at(triplets.positives), mask_at(triplets.negatives))
