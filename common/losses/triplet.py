"""The triplet loss over all triplets, without a tensor of all triplets."""

import numpy as np
import tensorflow as tf

from common.losses.metric_loss import MetricLoss
from common.ops.checks import check_choice, check_non_negative
from common.ops.distances import ROUNDING_UNITS, pairwise_distances
from common.references.comparison import ANCHORS, compare

keras = tf.keras


def active_triplet_counts(distances, positive, negative, margin):
    """In how many active triplets each pair takes part: `d_ap + m > d_an`.

    With the positives of an anchor at `d_ap + m` and its negatives at `d_an`, all sorted into one row, a positive is
    active with the negatives before it and a negative with the positives behind it. That is a sort of each row, in
    place of a tensor `[anchors, references, references]`. Only rows with a positive are sorted: of 33,952 proxies
    over a batch of 32, those of the classes of the batch. A difference below the rounding of the distances is not
    active.

    Args:
        distances: `[anchors, references]`.
        positive: bool, `[anchors, references]`.
        negative: bool, `[anchors, references]`, none of them positive.
        margin: m.

    Returns:
        int32 `[anchors, references]`: for a positive pair the number of its active negatives, for a negative pair
        minus the number of its active positives, for others 0. The sum of the terms of all active triplets is the sum
        of `counts * distances` plus m times the sum of the positive counts. No gradient: the counts are constant
        almost everywhere.
    """
    rows = tf.where(tf.reduce_any(positive, axis=1))[:, 0]  # [rows], int64
    distances = tf.gather(tf.stop_gradient(distances), rows)
    is_positive, is_negative = tf.gather(positive, rows), tf.gather(negative, rows)
    rounding = ROUNDING_UNITS * np.finfo(distances.dtype.as_numpy_dtype).eps
    order = tf.argsort(tf.where(is_positive, (distances + margin) * (1.0 - rounding), distances), axis=1)
    positives = tf.gather(tf.cast(is_positive, tf.int32), order, batch_dims=1)  # [rows, references], 0 or 1, sorted
    negatives = tf.gather(tf.cast(is_negative, tf.int32), order, batch_dims=1)
    active_negatives = tf.cumsum(negatives, axis=1)
    active_positives = tf.cumsum(positives, axis=1, reverse=True)
    counts = positives * active_negatives - negatives * active_positives
    unsorted = tf.gather(counts, tf.argsort(order, axis=1), batch_dims=1)
    return tf.scatter_nd(rows[:, None], unsorted, tf.shape(positive, out_type=tf.int64))


def triplet(distances, positive, negative, margin):
    """`mean_{>0} [d_ap - d_an + m]₊` over all triplets of an anchor, a positive and a negative.

    Args:
        distances: `[anchors, references]`.
        positive: bool, `[anchors, references]`.
        negative: bool, `[anchors, references]`, none of them positive.
        margin: m.

    Returns:
        A scalar, 0 if no triplet is active. Exact gradient.
    """
    counts = active_triplet_counts(distances, positive, negative, margin)
    num_active = tf.reduce_sum(tf.cast(tf.maximum(counts, 0), tf.int64))
    total = tf.reduce_sum(tf.cast(counts, distances.dtype) * distances)
    num_active = tf.cast(num_active, distances.dtype)
    return (total + margin * num_active) / tf.maximum(num_active, 1.0)


@keras.utils.register_keras_serializable(package="common")
class Triplet(MetricLoss):
    """Triplet loss on (unsquared) Euclidean distances, over all triplets.

    `mean_{>0} [d_ap - d_an + m]₊`: every anchor a with each of its positives p and each of its negatives n; the mean
    is over the terms that are greater than zero. Time O(references · log references) an anchor, memory O(anchors ·
    references).

    Reference: thesis 2.1.2 and 3.3.2.1; Schroff, Kalenichenko, Philbin: FaceNet, CVPR 2015, without the squares and
    mining.

    Args:
        margin: m, at least 0.
        anchors: `"embeddings"`: the batch is the anchors over the references (what a cross-batch memory wants);
            `"references"`: each reference is an anchor over the batch (what the proxies of CCP are). Without
            references both are the same.
        **kwargs: `normalization`, `name`, `dtype`; see `MetricLoss`.

    Example:
        >>> Triplet(margin=0.0961)(tf.random.normal([32, 128]), tf.repeat(tf.range(8), 4))
    """

    def __init__(self, margin=0.05, anchors="embeddings", **kwargs):
        super().__init__(**kwargs)
        self.margin = check_non_negative("margin", margin)
        self.anchors = check_choice("anchors", anchors, ANCHORS)

    def call(self, embeddings, labels, references=None):
        """The loss of a batch; see `MetricLoss`."""
        pairs = compare(embeddings, labels, references, normalization=self.normalization, anchors=self.anchors)
        distances = pairwise_distances(pairs.anchors, pairs.references)
        return triplet(distances, pairs.positive, pairs.negative, self.margin)

    def get_config(self):
        """The constructor's arguments."""
        return {**super().get_config(), "margin": self.margin, "anchors": self.anchors}
