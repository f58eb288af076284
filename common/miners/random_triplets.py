"""Any positive and any negative of each anchor."""

from __future__ import annotations

import tensorflow as tf

from common.miners.triplets import Triplets, candidates, draw, triplets_where
from common.references.reference_set import References


def random_triplets(
    embeddings: tf.Tensor, labels: tf.Tensor, seed: tf.Tensor, references: References | None = None
) -> Triplets:
    """Draw a positive and a negative of each anchor that has both, uniformly.

    Reference: Milbich's dissertation, section 2.2.1 ("Rand.").

    Args:
        embeddings: `[batch, dim]`.
        labels: integers, `[batch]`.
        seed: two integers, `[2]`; the same seed draws the same triplets.
        references: None: the batch itself.

    Returns:
        `Triplets` of indices.

    Examples:
        >>> random_triplets(tf.random.normal([32, 128]), tf.repeat(tf.range(8), 4), seed=(0, 7))
    """
    pairs = candidates(embeddings, labels, references)
    kept = tf.reduce_any(pairs.positive, axis=1) & tf.reduce_any(pairs.negative, axis=1)
    return triplets_where(kept, draw(pairs.positive, seed, 0), draw(pairs.negative, seed, 1))
