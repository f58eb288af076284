"""Triplets of three classes, for features shared across classes."""

from __future__ import annotations

import tensorflow as tf

from common.errors import check_choice, check_positive, invalid
from common.miners.distance_weighted import log_inverse_density
from common.miners.triplets import Triplets, candidates, draw, triplets_where
from common.ops.distances import pairwise_distances
from common.ops.normalization import normalize
from common.ops.pair_masks import integer_labels
from common.references.comparison import Comparison
from common.references.reference_set import References

NEGATIVES = ("distance", "random", "semi_hard")
POSITIVES = ("uniform", "distance", "nearest")


def inter_class(
    embeddings: tf.Tensor,
    labels: tf.Tensor,
    seed: tf.Tensor,
    references: References | None = None,
    *,
    negatives: str = "distance",
    positives: str = "uniform",
    cutoff: float = 0.5,
    margin: float = 0.2,
) -> Triplets:
    """Draw an anchor, a "positive" and a "negative" of three different classes.

    The negative comes from the classes other than the anchor's, the positive from those other than both. With
    `negatives="semi_hard"` the positive is drawn first. Drawn alike, the two are exchangeable and the tasks prefer no
    content. The default draws them differently, as the public code does.

    Reference: Milbich's dissertation, equation 3.4 and algorithm 1 (which prints the same weights for both), table
    3.11 (the three kinds of negatives) and table 3.10 (nearest positives).

    Args:
        embeddings: `[batch, dim]`; their directions are compared.
        labels: integers, `[batch]`.
        seed: two integers, `[2]`.
        references: None: the batch itself.
        negatives: `"distance"`: with weights `1 / q(max(d, cutoff))`, see `distance_weighted`; `"random"`: all alike;
            `"semi_hard"`: one with `d_ap < d_an < d_ap + margin`, or if there is none, any.
        positives: `"uniform"`: all alike; `"distance"`: with the weights above; `"nearest"`: the nearest one.
        cutoff: in (0, √2), below which all distances weigh alike.
        margin: of semi-hard negatives, greater than 0.

    Returns:
        `Triplets` of indices, one for each anchor with two other classes to draw from.

    Raises:
        InvalidInput: an argument is out of its range.
    """
    check_choice("negatives", negatives, NEGATIVES)
    check_choice("positives", positives, POSITIVES)
    check_positive("margin", margin)
    if not 0.0 < cutoff < 2.0**0.5:
        raise invalid("cutoff", received=cutoff, expected="a distance in (0, √2)")
    pairs = candidates(embeddings, labels, references)
    distances = pairwise_distances(*(normalize(x, "unit") for x in (pairs.anchors, pairs.references)))
    by_distance = log_inverse_density(distances, tf.shape(pairs.anchors)[1], cutoff)
    weights = {"distance": by_distance, "nearest": -1e6 * distances}  # no Gumbel noise makes up for that
    positive_weights, negative_weights = weights.get(positives), weights.get(negatives)
    if negatives == "semi_hard":
        chosen = draw(pairs.negative, seed, 0, positive_weights)
        third = _third_class(pairs, chosen)
        near = tf.gather(distances, chosen, batch_dims=1)[:, None]
        between = third & (distances > near) & (distances < near + margin)
        among = tf.where(tf.reduce_any(between, axis=1, keepdims=True), between, third)
        return triplets_where(tf.reduce_any(third, axis=1), chosen, draw(among, seed, 1))
    chosen = draw(pairs.negative, seed, 1, negative_weights)
    third = _third_class(pairs, chosen)
    return triplets_where(tf.reduce_any(third, axis=1), draw(third, seed, 0, positive_weights), chosen)


def _third_class(pairs: Comparison, chosen: tf.Tensor) -> tf.Tensor:
    """Mask references of neither the anchor's nor the chosen class, `[batch, references]`."""
    labels = integer_labels(pairs.reference_labels)  # refuses several of them
    padded = tf.pad(labels, [[0, 1]])  # the place that is drawn where there is none to draw
    return pairs.negative & (labels[None, :] != tf.gather(padded, chosen)[:, None])
