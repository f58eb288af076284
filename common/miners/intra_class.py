"""Triplets within one class, for differences between its images."""

from __future__ import annotations

import tensorflow as tf

from common.miners.triplets import Triplets, candidates, draw, triplets_where
from common.references.reference_set import References


def intra_class(
    embeddings: tf.Tensor, labels: tf.Tensor, seed: tf.Tensor, references: References | None = None
) -> Triplets:
    """Draw two others of the anchor's class uniformly, as positive and negative.

    Reference: Milbich's dissertation, section 4.1.1 (T_intra, equation 4.5), which leaves open whether the two may be
    the same. Here they differ: a pair cannot be in both masks of a triplet.

    The two are exchangeable. Over `MarginLoss` the task pulls all distances within a class to the band around the
    boundary; over `TripletLoss` it only makes them alike, down to zero. The boundary must be fixed, or learn far more
    slowly than the embedding: one that follows the distances leaves nothing to learn.

    Args:
        embeddings: `[batch, dim]`; unused.
        labels: integers, `[batch]`.
        seed: two integers, `[2]`.
        references: None: the batch itself.

    Returns:
        `Triplets` of indices, one for each anchor with two others of its class: batches need three images per class.
    """
    pairs = candidates(embeddings, labels, references)
    positives = draw(pairs.positive, seed, 0)
    columns = tf.range(tf.shape(pairs.positive, out_type=tf.int64)[1])
    others = pairs.positive & (columns[None, :] != positives[:, None])
    kept = tf.reduce_any(others, axis=1) & tf.reduce_any(pairs.positive, axis=1)
    return triplets_where(kept, positives, draw(others, seed, 1))
