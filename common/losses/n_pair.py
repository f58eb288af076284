"""The N-pair loss: each positive pair against all negatives of its anchor."""

from __future__ import annotations

import tensorflow as tf
from tensorflow import keras

from common.losses.metric_loss import MetricLoss
from common.ops.distances import pairwise_inner_products
from common.ops.normalization import mean_norm
from common.ops.reductions import log_sum_exp, masked_mean
from common.parameters import Anchors, LossArguments, NotNegative, Positive, Unpack, checked
from common.references.comparison import compare
from common.references.reference_set import References


@keras.utils.register_keras_serializable(package="deep_metric_learning")
class NPairLoss(MetricLoss):
    """N-pair loss on inner products s.

    `mean_ap log(1 + Σ_n e^{γ (s_an - s_ap)}) + ν mean ‖x‖` over all positive pairs whose anchor has a negative.

    Reference: Sohn: Improved Deep Metric Learning with Multi-class N-pair Loss Objective, NIPS 2016, where each anchor
    has one positive, embeddings are not normalised (`normalization="none"`), γ = 1 and the norm is squared; Milbich's
    dissertation, chapter 2 (the norm itself, ν = .005). Unit embeddings want a larger γ.

    Args:
        scale: γ, greater than 0.
        norm_penalty: ν, at least 0; of the embeddings as they come, before the loss normalises them.
        anchors: `"embeddings"` or `"references"`; see `MultiSimilarityLoss`.
        **kwargs: `normalization`, `name`, `dtype`; see `MetricLoss`.

    Examples:
        >>> NPairLoss(normalization="none", norm_penalty=0.005)(tf.random.normal([32, 128]), tf.repeat(tf.range(16), 2))
    """

    @checked
    def __init__(
        self,
        scale: Positive = 1.0,
        norm_penalty: NotNegative = 0.0,
        anchors: Anchors = "embeddings",
        **kwargs: Unpack[LossArguments],
    ) -> None:
        super().__init__(**kwargs)
        self.scale = scale
        self.norm_penalty = norm_penalty
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
        logits = self.scale * pairwise_inner_products(pairs.anchors, pairs.references)  # [anchors, references]
        terms = tf.math.softplus(log_sum_exp(logits, pairs.negative)[:, None] - logits)
        has_negatives = tf.reduce_any(pairs.negative, axis=1, keepdims=True)
        loss = masked_mean(pairs.weighted(terms), pairs.positive & has_negatives)
        return loss + self.norm_penalty * mean_norm(embeddings) if self.norm_penalty else loss

    def get_config(self) -> dict:
        """Return the constructor's arguments."""
        own = {"scale": self.scale, "norm_penalty": self.norm_penalty, "anchors": self.anchors}
        return {**super().get_config(), **own}
