"""The supervised contrastive loss."""

from __future__ import annotations

import tensorflow as tf
from tensorflow import keras

from common.losses.metric_loss import MetricLoss
from common.ops.distances import pairwise_inner_products
from common.ops.reductions import log_sum_exp, masked_mean
from common.parameters import Anchors, LossArguments, Positive, Unpack, checked
from common.references.comparison import compare
from common.references.reference_set import References


@keras.utils.register_keras_serializable(package="deep_metric_learning")
class SupervisedContrastiveLoss(MetricLoss):
    """Supervised contrastive loss (SupCon) on inner products s of unit embeddings.

    `mean_a mean_{p in P(a)} { log Σ_{k in A(a)} e^{s_ak/τ} - s_ap/τ }` over all anchors a with a positive: P(a) are the
    positives of a, A(a) all its partners, positives and negatives. Never below 0.

    Reference: Khosla, Teterwak, Wang, Sarna, Tian, Isola, Maschinot, Liu, Krishnan: Supervised Contrastive Learning,
    NeurIPS 2020, equation 2 (the mean over positives outside of the logarithm), with τ = .1 as in its experiments. The
    mean over anchors, instead of their sum, is ours. The thesis has no figures of this loss.

    Args:
        temperature: τ, greater than 0.
        anchors: `"embeddings"` or `"references"`; see `MultiSimilarityLoss`.
        **kwargs: `normalization`, `name`, `dtype`; see `MetricLoss`.

    Examples:
        >>> SupervisedContrastiveLoss(0.1)(tf.random.normal([32, 128]), tf.repeat(tf.range(8), 4))
    """

    @checked
    def __init__(
        self, temperature: Positive = 0.1, anchors: Anchors = "embeddings", **kwargs: Unpack[LossArguments]
    ) -> None:
        super().__init__(**kwargs)
        self.temperature = temperature
        self.anchors = anchors

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
        logits = pairwise_inner_products(pairs.anchors, pairs.references) / self.temperature  # [anchors, references]
        totals = log_sum_exp(logits, pairs.positive | pairs.negative)  # [anchors]
        terms = masked_mean(totals[:, None] - logits, pairs.positive, axis=1)
        return masked_mean(pairs.weighted(terms), tf.reduce_any(pairs.positive, axis=1))

    def get_config(self) -> dict:
        """Return the constructor's arguments."""
        return {**super().get_config(), "temperature": self.temperature, "anchors": self.anchors}
