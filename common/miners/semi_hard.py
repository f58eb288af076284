"""Negatives that are farther than the positive, but not by much."""

from __future__ import annotations

import tensorflow as tf

from common.errors import check_positive
from common.miners.triplets import Triplets, candidates, draw, triplets_where
from common.ops.distances import pairwise_distances
from common.references.reference_set import References


def semi_hard(
    embeddings: tf.Tensor,
    labels: tf.Tensor,
    seed: tf.Tensor,
    references: References | None = None,
    *,
    margin: float = 0.2,
) -> Triplets:
    """Draw a random positive, and a random semi-hard negative, if any.

    It has `d_ap < d_an < d_ap + m`. An anchor without one draws any of its negatives.

    Reference: Schroff, Kalenichenko, Philbin: FaceNet, CVPR 2015; so drawn in the code of Milbich's dissertation, whose
    eq. 5.2 takes the nearest of them (`common.losses.TripletLoss(mining="nearest_semi_hard")`).

    Args:
        embeddings: `[batch, dim]`, of unit length for the margin to be meaningful.
        labels: integers, `[batch]`.
        seed: two integers, `[2]`.
        references: None: the batch itself.
        margin: m, greater than 0.

    Returns:
        `Triplets` of indices, one for each anchor that has a positive and a negative.
    """
    check_positive("margin", margin)
    pairs = candidates(embeddings, labels, references)
    distances = pairwise_distances(pairs.anchors, pairs.references)
    positives = draw(pairs.positive, seed, 0)
    near = tf.gather(distances, positives, batch_dims=1)[:, None]
    between = pairs.negative & (distances > near) & (distances < near + margin)
    among = tf.where(tf.reduce_any(between, axis=1, keepdims=True), between, pairs.negative)
    kept = tf.reduce_any(pairs.positive, axis=1) & tf.reduce_any(pairs.negative, axis=1)
    return triplets_where(kept, positives, draw(among, seed, 1))
