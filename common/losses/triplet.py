"""The triplet loss over all or semi-hard triplets, without a tensor of them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

import numpy as np
import tensorflow as tf
from tensorflow import keras

from common.losses.metric_loss import MetricLoss
from common.ops.distances import ROUNDING_UNITS, pairwise_distances, pairwise_squared_distances
from common.parameters import Anchors, LossArguments, NotNegative, Unpack, checked
from common.references.comparison import compare
from common.references.reference_set import References

_FEW_POSITIVES = 32  # an anchor with no more of them has them picked out; with more its whole row is sorted


def active_triplet_counts(
    distances: tf.Tensor, positive: tf.Tensor, negative: tf.Tensor, margin: float, mining: str = "none"
) -> tf.Tensor:
    """Count each pair's active triplets: `d_ap + m > d_an`.

    The positives of an anchor are sorted by distance, and bisection places each negative among them: it is active with
    the positives behind it. That is quadratic in time (up to a logarithm) and in memory, also under XLA, instead of a
    tensor `[anchors, references, references]`. Only rows with a positive are processed: of 33,952 proxies over a batch
    of 32, those of the classes of the batch. A difference below the rounding of the distances is not active.

    Args:
        distances: `[anchors, references]`.
        positive: bool, `[anchors, references]`.
        negative: bool, `[anchors, references]`, none of them positive.
        margin: m.
        mining: see `TripletLoss`.

    Returns:
        int64 `[anchors, references]`: for a positive pair the number of its active negatives, for a negative pair
        minus the number of its active positives, for others 0. The sum of the terms of all active triplets is the sum
        of `counts * distances` plus m times the sum of the positive counts. No gradient: the counts are constant
        almost everywhere.
    """
    rows = tf.where(tf.reduce_any(positive, axis=1))[:, 0]  # [rows], int64
    distances = tf.gather(tf.stop_gradient(distances), rows)
    positive_rows, negative_rows = tf.gather(positive, rows), tf.gather(negative, rows)
    num_references = tf.shape(distances)[1]
    most = tf.reduce_max(tf.math.count_nonzero(positive_rows, axis=1))
    count = _count_nearest_semi_hard if mining == "nearest_semi_hard" else _count_all

    def count_with(num_sorted: int | tf.Tensor, rank: Callable) -> tf.Tensor:
        nearest, columns = tf.math.top_k(-tf.where(positive_rows, distances, np.inf), num_sorted)
        return count(distances, negative_rows, -nearest, columns, margin, mining == "semi_hard", rank)

    # The number of positives that are picked out is known to XLA in either branch.
    counts = tf.cond(
        most <= _FEW_POSITIVES,
        lambda: count_with(tf.minimum(num_references, _FEW_POSITIVES), _searched),
        lambda: count_with(num_references, rank_by_bisection),
    )
    return tf.scatter_nd(rows[:, None], counts, tf.shape(positive, out_type=tf.int64))


def _searched(ordered: tf.Tensor, values: tf.Tensor, side: str) -> tf.Tensor:
    return tf.searchsorted(ordered, values, side, out_type=tf.int64)


def active_below(distances: tf.Tensor, margin: float) -> tf.Tensor:
    """Return the distance below which negatives are active with positives at `distances`."""
    return (distances + margin) * (1.0 - ROUNDING_UNITS * np.finfo(distances.dtype.as_numpy_dtype).eps)


def rank_by_bisection(ordered: tf.Tensor, values: tf.Tensor, side: str) -> tf.Tensor:
    """Return `tf.searchsorted(ordered, values, side)` in memory linear in both, also under XLA.

    XLA compares all with all in `tf.searchsorted`: a table `[rows, ordered, values]`.

    Args:
        ordered: increasing numbers, `[rows, ordered]`.
        values: `[rows, values]`.
        side: `"left"`: how many of a row are below a value; `"right"`: below it or equal.

    Returns:
        int64 `[rows, values]`: of 32 bits it would be computed by the host of a GPU.
    """
    num_ordered = tf.shape(ordered, tf.int64)[1]

    def next_bit(step: tf.Tensor, ranks: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        tried = ranks + step
        last = tf.gather(ordered, tf.minimum(tried, num_ordered) - 1, batch_dims=1)
        fits = (tried <= num_ordered) & (last < values if side == "left" else last <= values)
        return step // 2, tf.where(fits, tried, ranks)

    num_bits = 1 + tf.cast(tf.math.log(tf.cast(tf.maximum(num_ordered, 1), tf.float64)) / np.log(2.0), tf.int64)
    state = tf.bitwise.left_shift(tf.ones_like(num_bits), num_bits), tf.zeros_like(values, tf.int64)
    return tf.while_loop(lambda step, _: step > 0, next_bit, state)[1]


def _count_all(
    distances: tf.Tensor,
    negative: tf.Tensor,
    nearest: tf.Tensor,
    columns: tf.Tensor,
    margin: float,
    semi_hard: bool,
    rank: Callable,
) -> tf.Tensor:
    """Count all active or all semi-hard triplets by pair, `[rows, references]`.

    Args:
        distances: `[rows, references]`.
        negative: bool, `[rows, references]`.
        nearest: distances of the positives of each row, increasing, then infinity, `[rows, sorted]`.
        columns: where they are, `[rows, sorted]`.
        margin: m.
        semi_hard: bool: leaves out the negatives that are not farther than the positive.
        rank: `_searched`, or its like.
    """
    num_rows, num_sorted = tf.unstack(tf.shape(nearest))  # int32, as XLA wants sizes; counts of 64 bits suit a GPU
    is_positive = tf.math.is_finite(nearest)
    num_positives = tf.math.count_nonzero(is_positive, axis=1, keepdims=True)
    # A negative is active with the positives of the ranks first..last-1.
    first = rank(active_below(nearest, margin), distances, side="right")  # [rows, references]
    last = num_positives
    if semi_hard:
        last = tf.maximum(rank(nearest, distances, side="left"), first)
    active_positives = tf.where(negative, last - first, 0)

    def num_up_to(ranks: tf.Tensor) -> tf.Tensor:  # how many negatives have `ranks` up to each rank: [rows, sorted]
        bins = ranks + tf.cast((num_sorted + 1) * tf.range(num_rows), tf.int64)[:, None]
        histogram = tf.math.unsorted_segment_sum(
            tf.reshape(tf.cast(negative, tf.int32), [-1]), tf.reshape(bins, [-1]), num_rows * (num_sorted + 1)
        )
        histogram = tf.cast(tf.reshape(histogram, [num_rows, num_sorted + 1]), tf.int64)
        return tf.cumsum(histogram, axis=1)[:, :-1]

    active_negatives = num_up_to(first) - (num_up_to(last) if semi_hard else 0)
    return _at_positives(-active_positives, columns, tf.where(is_positive, active_negatives, 0))


def _count_nearest_semi_hard(
    distances: tf.Tensor,
    negative: tf.Tensor,
    nearest: tf.Tensor,
    columns: tf.Tensor,
    margin: float,
    _: bool,
    rank: Callable,
) -> tf.Tensor:
    """Count like `_count_all`: each positive with its nearest farther (or farthest) negative."""
    negatives, places = tf.math.top_k(-tf.where(negative, distances, np.inf), tf.shape(distances)[1])
    num_negatives = tf.math.count_nonzero(negative, axis=1, keepdims=True)
    chosen = tf.minimum(rank(-negatives, nearest, side="right"), num_negatives - 1)  # [rows, sorted]
    chosen = tf.maximum(chosen, 0)  # an anchor without negatives: its first is infinitely far and not active
    active = tf.math.is_finite(nearest) & (tf.gather(-negatives, chosen, batch_dims=1) < active_below(nearest, margin))
    active = tf.cast(active, tf.int64)
    counts = _at_positives(tf.zeros_like(distances, tf.int64), columns, active)
    return _at_positives(counts, tf.gather(places, chosen, batch_dims=1), -active)


def _at_positives(counts: tf.Tensor, columns: tf.Tensor, values: tf.Tensor) -> tf.Tensor:
    """Add `values` `[rows, sorted]` to `counts` `[rows, references]` at the given columns."""
    rows = tf.broadcast_to(tf.range(tf.shape(columns)[0])[:, None], tf.shape(columns))
    return tf.tensor_scatter_nd_add(counts, tf.stack([rows, columns], axis=-1), values)


def triplet(
    distances: tf.Tensor,
    positive: tf.Tensor,
    negative: tf.Tensor,
    margin: float,
    mining: str = "none",
    weights: tf.Tensor | None = None,
) -> tf.Tensor:
    """Return `mean w_a [d_ap - d_an + m]₊` over triplets (a, p, n).

    Args:
        distances: `[anchors, references]`.
        positive: bool, `[anchors, references]`.
        negative: bool, `[anchors, references]`, none of them positive.
        margin: m.
        mining: see `TripletLoss`.
        weights: w, of the anchors, `[anchors]`; None: 1.

    Returns:
        A scalar, 0 if no triplet is active. Exact gradient, the selection of the triplets being constant.
    """
    counts = active_triplet_counts(distances, positive, negative, margin, mining)
    active = tf.reduce_sum(tf.cast(tf.maximum(counts, 0), tf.int64), axis=1)  # [anchors]
    terms = tf.cast(counts, distances.dtype) * distances
    num_terms = weighted_num_active = tf.reduce_sum(active)
    if weights is not None:
        terms *= weights[:, None]
        weighted_num_active = tf.reduce_sum(tf.cast(weights, tf.float64) * tf.cast(active, tf.float64))
    if mining == "nearest_semi_hard":
        num_terms = tf.math.count_nonzero(positive & tf.reduce_any(negative, axis=1, keepdims=True))
    weighted_num_active, num_terms = (tf.cast(x, distances.dtype) for x in (weighted_num_active, num_terms))
    return (tf.reduce_sum(terms) + margin * weighted_num_active) / tf.maximum(num_terms, 1.0)


@keras.utils.register_keras_serializable(package="deep_metric_learning")
class TripletLoss(MetricLoss):
    """Triplet loss on Euclidean distances, by default unsquared, over all triplets or semi-hard ones.

    `mean [d_ap - d_an + m]₊` over triplets of an anchor a, one of its positives p and one of its negatives n. Time
    O(references · log references) an anchor, memory O(anchors · references), with and without mining.

    Reference: thesis equation 2.1.2 and section 3.3.2.1, without mining; Schroff, Kalenichenko, Philbin: FaceNet, CVPR
    2015, equation 2, `squared` there; Milbich's dissertation eq. 2.8, `squared` as well.

    Args:
        margin: m, at least 0.
        anchors: `"embeddings"`: the batch is the anchors over the references (what a cross-batch memory wants);
            `"references"`: each reference is an anchor over the batch (what the proxies of CCP are). Without
            references both are the same.
        mining: which triplets.
            `"none"`: all; the mean is over the terms that are greater than zero.
            `"semi_hard"`: all with `d_ap < d_an < d_ap + m`; the mean is over them. The semi-hard triplets of
            pytorch-metric-learning's miner.
            `"nearest_semi_hard"`: for each positive pair the nearest negative that is farther than the positive, or
            if there is none the farthest negative; the mean is over all positive pairs of anchors with a negative.
            FaceNet's, as in tensorflow-addons.
        squared: whether d is the squared distance, which the margin and the mining then refer to.
        **kwargs: `normalization`, `name`, `dtype`; see `MetricLoss`.

    Examples:
        >>> TripletLoss(margin=0.0961)(tf.random.normal([32, 128]), tf.repeat(tf.range(8), 4))
    """

    @checked
    def __init__(
        self,
        margin: NotNegative = 0.05,
        anchors: Anchors = "embeddings",
        mining: Literal["none", "semi_hard", "nearest_semi_hard"] = "none",
        squared: bool = False,
        **kwargs: Unpack[LossArguments],
    ) -> None:
        super().__init__(**kwargs)
        self.margin = margin
        self.anchors = anchors
        self.mining = mining
        self.squared = bool(squared)

    def call(
        self,
        embeddings: tf.Tensor,
        labels: tf.Tensor,
        references: References | None = None,
        sample_weight: tf.Tensor | None = None,
    ) -> tf.Tensor:
        """Return the loss of a batch; see `MetricLoss`."""
        batch = embeddings, labels, references, sample_weight
        pairs = compare(*batch, normalization=self.normalization, anchors=self.anchors)
        distances_of = pairwise_squared_distances if self.squared else pairwise_distances
        distances = distances_of(pairs.anchors, pairs.references)
        return triplet(distances, pairs.positive, pairs.negative, self.margin, self.mining, pairs.anchor_weights)

    def get_config(self) -> dict:
        """Return the constructor's arguments."""
        own = {"margin": self.margin, "anchors": self.anchors, "mining": self.mining, "squared": self.squared}
        return {**super().get_config(), **own}
