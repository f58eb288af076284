"""The circle loss: similarities weighted by their distance from the optimum."""

from __future__ import annotations

import tensorflow as tf
from tensorflow import keras

from common.losses.metric_loss import MetricLoss
from common.ops.distances import pairwise_inner_products
from common.ops.reductions import log_sum_exp, masked_mean
from common.parameters import Anchors, LossArguments, Positive, Similarity, Unpack, checked
from common.references.comparison import compare
from common.references.reference_set import References


@keras.utils.register_keras_serializable(package="deep_metric_learning")
class CircleLoss(MetricLoss):
    """Circle loss on inner products s, over pairs.

    `mean_a log(1 + Σ_n e^{γ [s_n + m]₊ (s_n - m)} · Σ_p e^{-γ [1 + m - s_p]₊ (s_p - 1 + m)})` over the anchors with
    positives and negatives.

    Gradient: by default the weights `[...]₊` are constants in it, as in the paper; with `constant_weights=False` it is
    that of the value.

    Reference: Sun, Cheng, Zhang, Zhang, Zheng, Wang, Wei: Circle Loss, CVPR 2020 (m = .4, γ = 80 for retrieval of
    birds and cars).

    Args:
        margin: m, the relaxation; the similarities are driven beyond m and 1 - m.
        scale: γ, greater than 0.
        anchors: `"embeddings"` or `"references"`; see `MultiSimilarityLoss`.
        constant_weights: see above.
        **kwargs: `normalization`, `name`, `dtype`; see `MetricLoss`.

    Examples:
        >>> CircleLoss(margin=0.4, scale=80.0)(tf.random.normal([32, 128]), tf.repeat(tf.range(8), 4))
    """

    @checked
    def __init__(
        self,
        margin: Similarity = 0.4,
        scale: Positive = 80.0,
        anchors: Anchors = "embeddings",
        constant_weights: bool = True,
        **kwargs: Unpack[LossArguments],
    ) -> None:
        super().__init__(**kwargs)
        self.margin = margin
        self.scale = scale
        self.anchors = anchors
        self.constant_weights = bool(constant_weights)

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
        similarities = pairwise_inner_products(pairs.anchors, pairs.references)  # [anchors, references]
        weighed = tf.stop_gradient(similarities) if self.constant_weights else similarities
        pull = -tf.nn.relu(1.0 + self.margin - weighed) * (similarities - 1.0 + self.margin)
        push = tf.nn.relu(weighed + self.margin) * (similarities - self.margin)
        masks = pairs.positive, pairs.negative
        sums = [log_sum_exp(self.scale * logits, mask) for logits, mask in zip((pull, push), masks)]
        has_both = tf.reduce_any(pairs.positive, axis=1) & tf.reduce_any(pairs.negative, axis=1)
        return masked_mean(pairs.weighted(tf.math.softplus(tf.add_n(sums))), has_both)

    def get_config(self) -> dict:
        """Return the constructor's arguments."""
        return {
            **super().get_config(),
            "margin": self.margin,
            "scale": self.scale,
            "anchors": self.anchors,
            "constant_weights": self.constant_weights,
        }
