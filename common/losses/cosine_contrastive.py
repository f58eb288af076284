"""C1: the contrastive loss on inner products."""

from __future__ import annotations

from typing import Literal

import tensorflow as tf
from tensorflow import keras

from common.losses.metric_loss import MetricLoss
from common.ops.distances import pairwise_inner_products
from common.ops.reductions import mean_of_nonzero
from common.parameters import LossArguments, Similarity, Unpack, checked
from common.references.comparison import compare
from common.references.reference_set import References

# A positive pair as similar as this needs no pull; it keeps the self-matches of a memory out of the loss.
SIMILARITY_TOLERANCE = 1e-5


@keras.utils.register_keras_serializable(package="deep_metric_learning")
class CosineContrastiveLoss(MetricLoss):
    """Contrastive loss C1 on inner products s, the one of XBM.

    `(1/n) (Σ_positive [1 - s - 1e-5]₊ + Σ_negative [s - m]₊)` with n anchors: a sum over the partners of an anchor,
    so it grows with the number of references. With `reduction="mean_of_active"` each anchor has the mean of its
    positive terms that are greater than zero and the mean of such negative ones instead, which no number of references
    shifts towards the negatives.

    Reference: thesis 3.3.2.1 ("C1"); Wang, Zhang, Huang, Scott: Cross-Batch Memory, CVPR 2020, whose printed code
    adds the constant m to each negative term (the gradient is the same). The mean is ours.

    Args:
        margin: m, the similarity above which a negative pair is too close, in [-1, 1] for unit embeddings.
        reduction: `"sum"` over an anchor's partners, or `"mean_of_active"`.
        **kwargs: `normalization`, `name`, `dtype`; see `MetricLoss`.

    Examples:
        >>> CosineContrastiveLoss(margin=0.5)(tf.random.normal([32, 128]), tf.repeat(tf.range(8), 4))
    """

    @checked
    def __init__(
        self,
        margin: Similarity = 0.5,
        reduction: Literal["sum", "mean_of_active"] = "sum",
        **kwargs: Unpack[LossArguments],
    ) -> None:
        super().__init__(**kwargs)
        self.margin = margin
        self.reduction = reduction

    def call(
        self,
        embeddings: tf.Tensor,
        labels: tf.Tensor,
        references: References | None = None,
        sample_weight: tf.Tensor | None = None,
    ) -> tf.Tensor:
        """Return the loss of a batch; see `MetricLoss`."""
        pairs = compare(embeddings, labels, references, sample_weight, normalization=self.normalization)
        similarities = pairwise_inner_products(pairs.anchors, pairs.references)
        nothing = tf.zeros_like(similarities)
        too_far = tf.where(pairs.positive, tf.nn.relu(1.0 - similarities - SIMILARITY_TOLERANCE), nothing)
        too_close = tf.where(pairs.negative, tf.nn.relu(similarities - self.margin), nothing)
        num_anchors = tf.cast(tf.maximum(tf.shape(similarities)[0], 1), similarities.dtype)
        if self.reduction == "mean_of_active":
            terms = mean_of_nonzero(too_far, axis=1) + mean_of_nonzero(too_close, axis=1)
        else:
            terms = too_far + too_close
        return tf.reduce_sum(pairs.weighted(terms)) / num_anchors

    def get_config(self) -> dict:
        """Return the constructor's arguments."""
        return {**super().get_config(), "margin": self.margin, "reduction": self.reduction}
