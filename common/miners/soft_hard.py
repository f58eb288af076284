"""Negatives nearer than the farthest positive, positives farther than the nearest negative."""

from __future__ import annotations

import numpy as np
import tensorflow as tf

from common.miners.triplets import Triplets, candidates, draw, triplets_where
from common.ops.distances import pairwise_distances
from common.references.reference_set import References


def soft_hard(
    embeddings: tf.Tensor, labels: tf.Tensor, seed: tf.Tensor, references: References | None = None
) -> Triplets:
    """Draw a random hard positive and a random hard negative.

    Hard negatives are nearer than the farthest positive, hard positives are beyond the nearest negative. An anchor
    whose positives are all nearer than its negatives has no triplet.

    Reference: the rows "(Hard)" of Milbich's dissertation, table 2.2, whose code draws like this, and any positive or
    negative for an anchor without such a one; eq. 5.1 takes the nearest negative.

    Args:
        embeddings: `[batch, dim]`.
        labels: integers, `[batch]`.
        seed: two integers, `[2]`.
        references: None: the batch itself.

    Returns:
        `Triplets` of indices.
    """
    pairs = candidates(embeddings, labels, references)
    distances = pairwise_distances(pairs.anchors, pairs.references)
    farthest = tf.reduce_max(tf.where(pairs.positive, distances, -np.inf), axis=1, keepdims=True)
    nearest = tf.reduce_min(tf.where(pairs.negative, distances, np.inf), axis=1, keepdims=True)
    positive, negative = pairs.positive & (distances > nearest), pairs.negative & (distances < farthest)
    kept = tf.reduce_any(positive, axis=1) & tf.reduce_any(negative, axis=1)
    return triplets_where(kept, draw(positive, seed, 0), draw(negative, seed, 1))
