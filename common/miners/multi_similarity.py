"""Pairs that are nearly as hard as the hardest pair of the other kind."""

from __future__ import annotations

import numpy as np
import tensorflow as tf

from common.errors import check_non_negative
from common.miners.triplets import candidates
from common.ops.distances import pairwise_inner_products
from common.ops.normalization import normalize
from common.references.reference_set import Pairs, References


def multi_similarity_pairs(
    embeddings: tf.Tensor,
    labels: tf.Tensor,
    seed: tf.Tensor,
    references: References | None = None,
    *,
    epsilon: float = 0.1,
) -> Pairs:
    """Return the hard pairs of each anchor.

    A negative is hard if `s_an > min_p s_ap - ε`, a positive if `s_ap < max_n s_an + ε`. s is the cosine.
    Minimum and maximum are over all positives and all negatives of the anchor. Nothing is drawn. An anchor without a
    positive or without a negative has no pair.

    Reference: Wang, Han, Huang, Dong, Scott: Multi-Similarity Loss, CVPR 2019, section 4.2 (mining, ε = .1).

    Args:
        embeddings: `[batch, dim]`; their directions are compared.
        labels: integers, `[batch]`.
        seed: without effect.
        references: None: the batch itself.
        epsilon: ε, at least 0.

    Returns:
        `Pairs`, two bool masks `[batch, references]`.

    Raises:
        InvalidInput: ε is out of its range.
    """
    del seed
    check_non_negative("epsilon", epsilon)
    pairs = candidates(embeddings, labels, references)
    cosines = pairwise_inner_products(*(normalize(x, "unit") for x in (pairs.anchors, pairs.references)))
    farthest = tf.reduce_min(tf.where(pairs.positive, cosines, np.inf), axis=1, keepdims=True)
    nearest = tf.reduce_max(tf.where(pairs.negative, cosines, -np.inf), axis=1, keepdims=True)
    return Pairs(pairs.positive & (cosines < nearest + epsilon), pairs.negative & (cosines > farthest - epsilon))
