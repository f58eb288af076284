"""Negatives drawn evenly over distances: weights divide out the sphere's density of distances."""

from __future__ import annotations

import tensorflow as tf

from common.errors import invalid
from common.miners.triplets import Triplets, candidates, draw, triplets_where
from common.ops.distances import pairwise_distances
from common.ops.normalization import normalize
from common.ops.precision import at_least_float32
from common.references.reference_set import References

SMALLEST_REST = 1e-8  # of 1 - d²/4: antipodes would weigh infinitely much


def log_inverse_density(distances: tf.Tensor, dim: int, cutoff: float = 0.5) -> tf.Tensor:
    """Return `-log q(d)` up to a constant.

    `q(d) = d^{D-2} (1 - d²/4)^{(D-3)/2}` is the density of distances on the unit sphere.

    Reference: Wu et al., ICCV 2017, section 4; Milbich's dissertation eq. 5.3.

    Args:
        distances: 0..2, any shape.
        dim: D, the number of components of a vector.
        cutoff: smaller distances weigh as much as this one.

    Returns:
        The shape of `distances`, at least float32.
    """
    distances = tf.maximum(at_least_float32(distances), cutoff)
    rest = tf.maximum(1.0 - distances**2 / 4.0, SMALLEST_REST)
    dim = tf.cast(dim, distances.dtype)
    return (2.0 - dim) * tf.math.log(distances) - (dim - 3.0) / 2.0 * tf.math.log(rest)


def distance_weighted(
    embeddings: tf.Tensor,
    labels: tf.Tensor,
    seed: tf.Tensor,
    references: References | None = None,
    *,
    cutoff: float = 0.5,
) -> Triplets:
    """Draw a random positive, and a negative with weights `1 / q(max(d_an, cutoff))`.

    Reference: Wu, Manmatha, Smola, Krähenbühl: Sampling Matters in Deep Embedding Learning, ICCV 2017; Milbich's
    dissertation eq. 5.3 and 5.4, as its code draws (cutoff .5). Its text has `min(λ, 1 / q(d_an))`, which agrees for
    λ = 1 / q(cutoff) but beyond `sqrt(4 - cutoff²)` or so: there 1 / q grows again, and is not clipped here. Wu et al.
    leave out negatives beyond 1.4; neither that code nor this does.

    Args:
        embeddings: `[batch, dim]`; their directions are compared.
        labels: integers, `[batch]`.
        seed: two integers, `[2]`.
        references: None: the batch itself.
        cutoff: in (0, √2), below which all weigh alike.

    Returns:
        `Triplets` of indices, one for each anchor that has a positive and a negative.

    Raises:
        InvalidInput: the cutoff is out of its range.
    """
    if not 0.0 < cutoff < 2.0**0.5:
        raise invalid("cutoff", received=cutoff, expected="a distance in (0, √2)")
    pairs = candidates(embeddings, labels, references)
    distances = pairwise_distances(*(normalize(x, "unit") for x in (pairs.anchors, pairs.references)))
    log_weights = log_inverse_density(distances, tf.shape(pairs.anchors)[1], cutoff)
    kept = tf.reduce_any(pairs.positive, axis=1) & tf.reduce_any(pairs.negative, axis=1)
    return triplets_where(kept, draw(pairs.positive, seed, 0), draw(pairs.negative, seed, 1, log_weights))
