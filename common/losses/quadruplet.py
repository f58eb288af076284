"""The quadruplet loss: triplets, and positive pairs against negative pairs of other classes."""

from __future__ import annotations

import tensorflow as tf
from tensorflow import keras

from common.losses.metric_loss import MetricLoss
from common.losses.triplet import active_below, rank_by_bisection, triplet
from common.ops.distances import pairwise_distances
from common.ops.pair_masks import consecutive_labels
from common.parameters import Anchors, LossArguments, NotNegative, Unpack, checked
from common.references.comparison import compare
from common.references.reference_set import References


def active_quadruplet_counts(
    distances: tf.Tensor,
    positive: tf.Tensor,
    negative: tf.Tensor,
    row_labels: tf.Tensor,
    column_labels: tf.Tensor,
    margin: float,
) -> tf.Tensor:
    """Count each pair's active quadruplets, `d_ap + m > d_kl`.

    k and l are of two classes other than a's. All pairs are ranked once. Bisection then counts the negative pairs below
    a positive one: among all of them and, to be subtracted, among those with a member of its class. Time and memory are
    those of sorting the pairs, instead of a tensor of pairs by pairs.

    Args:
        distances: `[anchors, references]`.
        positive: bool, `[anchors, references]`.
        negative: bool, `[anchors, references]`.
        row_labels: integers, `[anchors]`.
        column_labels: integers, `[references]`.
        margin: m.

    Returns:
        int64 `[anchors, references]`: for a positive pair the number of its active negative pairs, for a negative pair
        minus the number of its active positive pairs, for others 0. No gradient.
    """
    distances = tf.stop_gradient(distances)
    shape = tf.shape(distances)
    groups = consecutive_labels(tf.concat([row_labels, column_labels], axis=0))
    rows, columns = (
        tf.reshape(tf.broadcast_to(part, shape), [-1]) for part in (groups[: shape[0], None], groups[None, shape[0] :])
    )  # [pairs] each: the classes of a pair
    values, positive, negative = (tf.reshape(x, [-1]) for x in (distances, positive, negative))
    bounds = tf.where(positive, active_below(values, margin), values)
    ranks = _place(_sorted(values, negative), bounds, "left")  # how many negative pairs are below, [pairs]
    counts = tf.where(positive, ranks - _num_below(ranks, rows, columns, negative), 0)
    counts -= tf.where(negative, _num_above(ranks, rows, columns, positive), 0)
    return tf.reshape(counts, shape)


def _keys(groups: tf.Tensor, ranks: tf.Tensor) -> tf.Tensor:
    """Return numbers that sort by group and then by rank, `[pairs]`."""
    return groups * (tf.size(ranks, out_type=tf.int64) + 1) + ranks


def _sorted(keys: tf.Tensor, mask: tf.Tensor) -> tf.Tensor:
    """Sort the keys of the mask; others follow as the largest number."""
    return tf.sort(tf.where(mask, keys, keys.dtype.max))


def _num_below(ranks: tf.Tensor, rows: tf.Tensor, columns: tf.Tensor, negative: tf.Tensor) -> tf.Tensor:
    """Count negative pairs below each pair with a member of its row's class, `[pairs]`."""
    asked = _keys(rows, ranks)
    by_row, by_column = _sorted(asked, negative), _sorted(_keys(columns, ranks), negative & (rows != columns))
    return tf.add_n([_place(by, asked, "left") - _place(by, asked - ranks, "left") for by in (by_row, by_column)])


def _num_above(ranks: tf.Tensor, rows: tf.Tensor, columns: tf.Tensor, positive: tf.Tensor) -> tf.Tensor:
    """Count positive pairs above each pair, of other classes than its two, `[pairs]`."""
    by_row = _keys(rows, ranks)
    by_class = _sorted(by_row, positive)
    counts = tf.math.count_nonzero(positive) - _place(_sorted(ranks, positive), ranks, "right")
    for asked, counted in ((by_row, tf.ones_like(positive)), (_keys(columns, ranks), rows != columns)):
        last = asked - ranks + tf.size(ranks, out_type=tf.int64)  # of the class
        within = _place(by_class, last, "right") - _place(by_class, asked, "right")
        counts -= tf.where(counted, within, 0)
    return counts


def _place(ordered: tf.Tensor, values: tf.Tensor, side: str) -> tf.Tensor:
    return rank_by_bisection(ordered[None], values[None], side)[0]


@keras.utils.register_keras_serializable(package="deep_metric_learning")
class QuadrupletLoss(MetricLoss):
    """Quadruplet loss on (unsquared) Euclidean distances.

    `mean [d_ap - d_an + m₁]₊` over the triplets plus `mean [d_ap - d_kl + m₂]₊` over positive pairs (a, p) and
    negative pairs (k, l) of classes other than a's. Each mean is over the terms greater than zero. Memory
    O(anchors · references); time that of sorting these pairs.

    Reference: Chen, Chen, Zhang, Huang: Beyond Triplet Loss, CVPR 2017, over all quadruplets and without the squares;
    Milbich's dissertation, chapter 2 (m₁ = m₂ = .2), draws one of them for each anchor.

    Args:
        margin: m₁, at least 0.
        second_margin: m₂, at least 0.
        anchors: `"embeddings"` or `"references"`; see `TripletLoss`.
        **kwargs: `normalization`, `name`, `dtype`; see `MetricLoss`.

    Examples:
        >>> QuadrupletLoss(0.2, 0.2)(tf.random.normal([32, 128]), tf.repeat(tf.range(8), 4))
    """

    @checked
    def __init__(
        self,
        margin: NotNegative = 0.2,
        second_margin: NotNegative = 0.2,
        anchors: Anchors = "embeddings",
        **kwargs: Unpack[LossArguments],
    ) -> None:
        super().__init__(**kwargs)
        self.margin = margin
        self.second_margin = second_margin
        self.anchors = anchors

    def call(self, embeddings: tf.Tensor, labels: tf.Tensor, references: References | None = None) -> tf.Tensor:
        """Return the loss of a batch; see `MetricLoss`."""
        pairs = compare(embeddings, labels, references, normalization=self.normalization, anchors=self.anchors)
        distances = pairwise_distances(pairs.anchors, pairs.references)
        masks = pairs.positive, pairs.negative
        counts = active_quadruplet_counts(
            distances, *masks, pairs.anchor_labels, pairs.reference_labels, self.second_margin
        )
        num_active = tf.cast(tf.reduce_sum(tf.maximum(counts, 0)), distances.dtype)
        total = tf.reduce_sum(tf.cast(counts, distances.dtype) * distances) + self.second_margin * num_active
        return triplet(distances, *masks, self.margin) + total / tf.maximum(num_active, 1.0)

    def get_config(self) -> dict:
        """Return the constructor's arguments."""
        own = {"margin": self.margin, "second_margin": self.second_margin, "anchors": self.anchors}
        return {**super().get_config(), **own}
