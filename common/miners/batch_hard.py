"""The farthest positive and the nearest negative of each anchor."""

from __future__ import annotations

import tensorflow as tf

from common.miners.triplets import Triplets, candidates, highest, triplets_where
from common.ops.distances import pairwise_distances
from common.references.reference_set import References


def batch_hard(
    embeddings: tf.Tensor, labels: tf.Tensor, seed: tf.Tensor, references: References | None = None
) -> Triplets:
    """Return the hardest triplet of each anchor: `argmax_p d_ap`, `argmin_n d_an`.

    Nothing is drawn. Of equally distant candidates the first one counts.

    Reference: Hermans, Beyer, Leibe: In Defense of the Triplet Loss for Person Re-Identification, 2017, equation 5.
    Its loss is the mean over all anchors; in `MinedLoss` the mean is that of the loss inside.

    Args:
        embeddings: `[batch, dim]`.
        labels: integers, `[batch]`.
        seed: without effect.
        references: None: the batch itself.

    Returns:
        `Triplets` of indices, one for each anchor that has a positive and a negative.
    """
    del seed
    pairs = candidates(embeddings, labels, references)
    distances = pairwise_distances(pairs.anchors, pairs.references)
    kept = tf.reduce_any(pairs.positive, axis=1) & tf.reduce_any(pairs.negative, axis=1)
    return triplets_where(kept, highest(pairs.positive, distances), highest(pairs.negative, -distances))
