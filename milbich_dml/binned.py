"""Negatives by the bin of their distance, with a given distribution over the bins."""

from __future__ import annotations

import tensorflow as tf

from common.errors import check_choice, invalid
from common.miners.triplets import Triplets, candidates, draw, triplets_where
from common.ops.distances import pairwise_distances
from common.ops.normalization import normalize
from common.references.reference_set import References
from milbich_dml.distance_bins import bin_edges

DRAWS = ("bins", "candidates")


def bins_of(distances: tf.Tensor, num_bins: int, low: float, high: float) -> tf.Tensor:
    """Return the bin of each distance, int32 of the same shape.

    The bins are equal parts of `[low, high)`; the last one includes `high`.

    Args:
        distances: any shape.
        num_bins: at least 1.
        low: below it a distance has the bin -1.
        high: above it a distance has the bin `num_bins`.
    """
    edges = tf.constant(bin_edges(num_bins, low, high), distances.dtype)
    found = tf.searchsorted(edges, tf.reshape(distances, [-1]), side="right") - 1
    found = tf.reshape(found, tf.shape(distances))
    return tf.where(distances == edges[-1], num_bins - 1, found)


def binned(
    embeddings: tf.Tensor,
    labels: tf.Tensor,
    seed: tf.Tensor,
    references: References | None = None,
    *,
    log_weights: tf.Tensor,
    low: float,
    high: float,
    draws: str = "bins",
    positives_too: bool = False,
) -> Triplets:
    """Draw a random positive, and a negative by the bin of its distance.

    `draws="bins"`: a bin is drawn with `p_m / Σ p_m'` over the bins in which the anchor has candidates, then one of its
    candidates uniformly. `draws="candidates"`: each candidate has the weight p_m of its bin, so a bin is drawn with
    weight `n_m p_m`. Candidates outside of the interval are not drawn.

    Reference: Milbich's dissertation, equation 5.5 (`"bins"`). The public code of PADS draws `"candidates"`; it means
    to leave out distances outside of the interval, but puts them into the bins at its ends.

    Args:
        embeddings: `[batch, dim]`; their directions are compared.
        labels: integers, `[batch]`.
        seed: two integers, `[2]`.
        references: None: the batch itself.
        log_weights: log p_m up to a constant, `[bins]`.
        low: lower end of the interval of distances, at least 0.
        high: upper end, above `low`.
        draws: one of `DRAWS`.
        positives_too: whether the other members of the anchor's class are candidates as well ("self-regularisation").

    Returns:
        `Triplets` of indices, one for each anchor that has a positive and a candidate inside of the interval.

    Raises:
        InvalidInput: an argument is out of its range.
    """
    check_choice("draws", draws, DRAWS)
    if not 0.0 <= low < high:
        raise invalid("interval", received=(low, high), expected="0 <= low < high")
    pairs = candidates(embeddings, labels, references)
    distances = pairwise_distances(*(normalize(x, "unit") for x in (pairs.anchors, pairs.references)))
    positives = draw(pairs.positive, seed, 0)
    allowed = pairs.negative
    if positives_too:
        columns = tf.range(tf.shape(distances, out_type=tf.int64)[1])
        allowed |= pairs.positive & (columns[None, :] != positives[:, None])
    log_weights = tf.cast(log_weights, distances.dtype)
    num_bins = int(log_weights.shape[0])
    bins = bins_of(distances, num_bins, low, high)
    inside = allowed & (bins >= 0) & (bins < num_bins)
    bins = tf.clip_by_value(bins, 0, num_bins - 1)
    weights = tf.gather(log_weights, bins)
    if draws == "bins":
        weights -= tf.math.log(tf.maximum(_counts(bins, inside, num_bins, weights.dtype), 1.0))
    kept = tf.reduce_any(pairs.positive, axis=1) & tf.reduce_any(inside, axis=1)
    return triplets_where(kept, positives, draw(inside, seed, 1, weights))


def _counts(bins: tf.Tensor, inside: tf.Tensor, num_bins: int, dtype: tf.DType) -> tf.Tensor:
    """Count the candidates in the bin of each pair, by row, `[batch, references]`."""
    num_rows = tf.shape(bins)[0]
    groups = bins + num_bins * tf.range(num_rows)[:, None]
    flat = tf.reshape(groups, [-1])
    totals = tf.math.unsorted_segment_sum(tf.reshape(tf.cast(inside, dtype), [-1]), flat, num_rows * num_bins)
    return tf.reshape(tf.gather(totals, flat), tf.shape(bins))
