"""The multi-similarity loss."""

from __future__ import annotations

from typing import Literal

import tensorflow as tf
from tensorflow import keras

from common.losses.metric_loss import MetricLoss
from common.ops.distances import pairwise_inner_products
from common.ops.reductions import log1p_sum_exp, masked_mean
from common.parameters import Anchors, LossArguments, Positive, Similarity, Unpack, checked
from common.references.comparison import compare
from common.references.reference_set import References


@keras.utils.register_keras_serializable(package="deep_metric_learning")
class MultiSimilarityLoss(MetricLoss):
    """Multi-similarity loss on inner products s, over all pairs (no mining).

    `mean_a { (1/α) log(1 + Σ_positive e^{α(λ - s)}) + (1/β) log(1 + Σ_negative e^{β(s - λ)}) }` over all anchors a.
    With `reduction="mean_of_active"` each sum is divided by the number of its active terms, those greater than 1
    (positives below λ, negatives above it), where there is more than one.

    Reference: thesis 3.3.2.1 ("MS"); Wang, Han, Huang, Dong, Scott: Multi-Similarity Loss, CVPR 2019, without the
    mining. The mean is ours.

    Args:
        positive_scale: α, greater than 0.
        negative_scale: β, greater than 0.
        threshold: λ, the similarity between the positive and the negative pairs.
        anchors: `"embeddings"`: the batch is the anchors over the references (what a cross-batch memory wants);
            `"references"`: each (valid) reference is an anchor over the batch (what the proxies of CCP are). Without
            references both are the same.
        reduction: `"sum"` over an anchor's partners, or `"mean_of_active"`.
        **kwargs: `normalization`, `name`, `dtype`; see `MetricLoss`.

    Examples:
        >>> MultiSimilarityLoss(2.0, 40.0, 0.5)(tf.random.normal([32, 128]), tf.repeat(tf.range(8), 4))
    """

    @checked
    def __init__(
        self,
        positive_scale: Positive = 2.0,
        negative_scale: Positive = 40.0,
        threshold: Similarity = 0.5,
        anchors: Anchors = "embeddings",
        reduction: Literal["sum", "mean_of_active"] = "sum",
        **kwargs: Unpack[LossArguments],
    ) -> None:
        super().__init__(**kwargs)
        self.positive_scale = positive_scale
        self.negative_scale = negative_scale
        self.threshold = threshold
        self.anchors = anchors
        self.reduction = reduction

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
        excess = pairwise_inner_products(pairs.anchors, pairs.references) - self.threshold  # [anchors, references]
        pull = self._penalty(-self.positive_scale * excess, pairs.positive) / self.positive_scale  # [anchors]
        push = self._penalty(self.negative_scale * excess, pairs.negative) / self.negative_scale
        return masked_mean(pairs.weighted(pull + push), pairs.valid_anchors)

    def _penalty(self, logits: tf.Tensor, partners: tf.Tensor) -> tf.Tensor:
        """Return `log(1 + Σ e^logits)` by anchor, of the sum or active mean."""
        if self.reduction == "sum":
            return log1p_sum_exp(logits, partners)
        num_active = tf.math.count_nonzero(partners & (logits > 0), axis=1, keepdims=True, dtype=logits.dtype)
        return log1p_sum_exp(logits - tf.math.log(tf.maximum(num_active, 1.0)), partners)

    def get_config(self) -> dict:
        """Return the constructor's arguments."""
        return {
            **super().get_config(),
            "positive_scale": self.positive_scale,
            "negative_scale": self.negative_scale,
            "threshold": self.threshold,
            "anchors": self.anchors,
            "reduction": self.reduction,
        }
