"""The multi-similarity loss."""

from __future__ import annotations

from typing import Any

import tensorflow as tf
from tensorflow import keras

from common.losses.metric_loss import MetricLoss
from common.ops.checks import check_choice, check_positive
from common.ops.distances import pairwise_inner_products
from common.ops.reductions import log1p_sum_exp, masked_mean
from common.references.comparison import ANCHORS, compare
from common.references.reference_set import References


@keras.utils.register_keras_serializable(package="common")
class MultiSimilarity(MetricLoss):
    """Multi-similarity loss on inner products s, over all pairs (no mining).

    `mean_a { (1/α) log(1 + Σ_positive e^{α(λ - s)}) + (1/β) log(1 + Σ_negative e^{β(s - λ)}) }` over all anchors a.

    Reference: thesis 3.3.2.1 ("MS"); Wang, Han, Huang, Dong, Scott: Multi-Similarity Loss, CVPR 2019, without the
    mining.

    Args:
        positive_scale: α, greater than 0.
        negative_scale: β, greater than 0.
        threshold: λ, the similarity between the positive and the negative pairs.
        anchors: `"embeddings"`: the batch is the anchors over the references (what a cross-batch memory wants);
            `"references"`: each (valid) reference is an anchor over the batch (what the proxies of CCP are). Without
            references both are the same.
        **kwargs: `normalization`, `name`, `dtype`; see `MetricLoss`.

    Example:
        >>> MultiSimilarity(2.0, 40.0, 0.5)(tf.random.normal([32, 128]), tf.repeat(tf.range(8), 4))
    """

    def __init__(
        self,
        positive_scale: float = 2.0,
        negative_scale: float = 40.0,
        threshold: float = 0.5,
        anchors: str = "embeddings",
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.positive_scale = check_positive("positive_scale", positive_scale)
        self.negative_scale = check_positive("negative_scale", negative_scale)
        self.threshold = threshold
        self.anchors = check_choice("anchors", anchors, ANCHORS)

    def call(self, embeddings: tf.Tensor, labels: tf.Tensor, references: References | None = None) -> tf.Tensor:
        """The loss of a batch; see `MetricLoss`."""
        pairs = compare(embeddings, labels, references, normalization=self.normalization, anchors=self.anchors)
        excess = pairwise_inner_products(pairs.anchors, pairs.references) - self.threshold  # [anchors, references]
        pull = log1p_sum_exp(-self.positive_scale * excess, pairs.positive) / self.positive_scale  # [anchors]
        push = log1p_sum_exp(self.negative_scale * excess, pairs.negative) / self.negative_scale
        return masked_mean(pull + push, pairs.valid_anchors)

    def get_config(self) -> dict:
        """The constructor's arguments."""
        return {
            **super().get_config(),
            "positive_scale": self.positive_scale,
            "negative_scale": self.negative_scale,
            "threshold": self.threshold,
            "anchors": self.anchors,
        }
