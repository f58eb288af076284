"""The histogram loss: how much the similarities of positive and of negative pairs overlap."""

from __future__ import annotations

import tensorflow as tf
from tensorflow import keras

from common.losses.metric_loss import MetricLoss
from common.ops.distances import pairwise_inner_products
from common.parameters import LossArguments, TwoOrMore, Unpack, checked
from common.references.comparison import compare
from common.references.reference_set import References


def soft_histogram(values: tf.Tensor, mask: tf.Tensor, num_nodes: int) -> tf.Tensor:
    """Return shares of values in -1..1 at equally spaced nodes, interpolated linearly.

    Args:
        values: floats, any shape; those beyond -1 or 1 count as these.
        mask: bool, the same shape.
        num_nodes: 2 or more; the first is at -1, the last at 1.

    Returns:
        `[nodes]`, of sum 1, or 0 without values. Exact gradient, constant between two nodes.
    """
    values, mask = tf.reshape(values, [-1]), tf.reshape(mask, [-1])
    places = (tf.clip_by_value(values, -1.0, 1.0) + 1.0) * (0.5 * (num_nodes - 1))
    lower = tf.clip_by_value(tf.cast(places, tf.int32), 0, num_nodes - 2)  # NaN has a place too, and is seen there
    upper_share = places - tf.cast(lower, places.dtype)
    nothing = tf.zeros_like(places)
    histogram = tf.math.unsorted_segment_sum(tf.where(mask, 1.0 - upper_share, nothing), lower, num_nodes)
    histogram += tf.math.unsorted_segment_sum(tf.where(mask, upper_share, nothing), lower + 1, num_nodes)
    return histogram / tf.cast(tf.maximum(tf.math.count_nonzero(mask), 1), histogram.dtype)


@keras.utils.register_keras_serializable(package="deep_metric_learning")
class HistogramLoss(MetricLoss):
    """Histogram loss on inner products of unit vectors.

    `Σ_r h⁻_r Σ_{q ≤ r} h⁺_q`: the probability that a random negative pair is more similar than a random positive one,
    by the histograms h⁺ and h⁻ over all pairs of the batch. 0 without pairs of both kinds.

    Reference: Ustinova, Lempitsky: Learning Deep Embeddings with Histogram Loss, NIPS 2016; Milbich's dissertation,
    chapter 2 (65 nodes on CUB and Cars, 11 on SOP).

    Args:
        num_nodes: of the histograms, 2 or more.
        **kwargs: `normalization`, `name`, `dtype`; see `MetricLoss`. Products beyond -1..1, which unit vectors do not
            have, count as these.

    Raises:
        InvalidInput: fewer than two nodes.

    Examples:
        >>> HistogramLoss(num_nodes=65)(tf.random.normal([32, 128]), tf.repeat(tf.range(8), 4))
    """

    @checked
    def __init__(self, num_nodes: TwoOrMore = 65, **kwargs: Unpack[LossArguments]) -> None:
        super().__init__(**kwargs)
        self.num_nodes = num_nodes

    def call(self, embeddings: tf.Tensor, labels: tf.Tensor, references: References | None = None) -> tf.Tensor:
        """Return the loss of a batch; see `MetricLoss`."""
        pairs = compare(embeddings, labels, references, normalization=self.normalization)
        similarities = pairwise_inner_products(pairs.anchors, pairs.references)
        of_positives, of_negatives = (
            soft_histogram(similarities, mask, self.num_nodes) for mask in (pairs.positive, pairs.negative)
        )
        return tf.reduce_sum(of_negatives * tf.cumsum(of_positives))

    def get_config(self) -> dict:
        """Return the constructor's arguments."""
        return {**super().get_config(), "num_nodes": self.num_nodes}
