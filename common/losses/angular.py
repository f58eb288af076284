"""The angular loss: the angle at the negative of each triplet is held small."""

from __future__ import annotations

import math
from typing import Annotated

import tensorflow as tf
from tensorflow import keras

from common.losses.metric_loss import MetricLoss
from common.ops.distances import pairwise_inner_products
from common.ops.reductions import masked_mean
from common.parameters import Anchors, LossArguments, NumberRange, Unpack, checked
from common.references.comparison import compare
from common.references.reference_set import References

Degrees = Annotated[float, NumberRange(0, 60, high_included=True)]  # beyond, exponentials leave float32


def log_sum_exp_of_sums(
    scale: float, similarities: tf.Tensor, positive_similarities: tf.Tensor, negative: tf.Tensor
) -> tf.Tensor:
    """Return `log Σ_n e^{γ (s_an + s_pn)}` of all anchors a and positives p.

    The sum runs over the negatives n of a. The exponential of a sum is a product, so that the sum over n is a matrix
    product, instead of a tensor `[anchors, positives, references]`.

    Args:
        scale: γ, at most 12.
        similarities: s_an, of unit vectors, `[anchors, references]`.
        positive_similarities: s_pn, of unit vectors, `[positives, references]`.
        negative: bool, `[anchors, references]`.

    Returns:
        `[anchors, positives]`; without negatives, 2 γ.
    """
    of_anchors, of_positives = (tf.exp(scale * (s - 1.0)) for s in (similarities, positive_similarities))
    of_anchors = tf.where(negative, of_anchors, tf.zeros_like(of_anchors))
    sums = tf.matmul(of_anchors, of_positives, transpose_b=True)
    return tf.math.log(tf.where(sums != 0.0, sums, tf.ones_like(sums))) + 2.0 * scale


@keras.utils.register_keras_serializable(package="deep_metric_learning")
class AngularLoss(MetricLoss):
    """Angular loss, over all triplets.

    `mean_ap log(1 + Σ_n e^{4 tan²α (x_a + x_p)ᵀ x_n - 2 (1 + tan²α) x_aᵀ x_p})` over all positive pairs whose anchor
    has a negative. The vectors are unit vectors, whatever the `normalization`. Memory O(positives · references);
    under XLA O(references²).

    Reference: Wang, Zhou, Wen, Liu, Lin: Deep Metric Learning with Angular Loss, ICCV 2017. Milbich's dissertation,
    chapter 2, adds it with weight 2 to its N-pair loss:
    `WeightedSumLoss([NPairLoss(normalization="none", norm_penalty=0.005), AngularLoss()], [1.0, 2.0])`.

    Args:
        angle: α in degrees, in (0, 60].
        anchors: `"embeddings"` or `"references"`; see `MultiSimilarityLoss`.
        **kwargs: `name`, `dtype`; see `MetricLoss`.

    Raises:
        InvalidInput: the angle is out of its range.

    Examples:
        >>> AngularLoss(angle=45.0)(tf.random.normal([32, 128]), tf.repeat(tf.range(16), 2))
    """

    @checked
    def __init__(self, angle: Degrees = 45.0, anchors: Anchors = "embeddings", **kwargs: Unpack[LossArguments]) -> None:
        super().__init__(**kwargs)
        self.angle = angle
        self.anchors = anchors

    def call(self, embeddings: tf.Tensor, labels: tf.Tensor, references: References | None = None) -> tf.Tensor:
        """Return the loss of a batch; see `MetricLoss`."""
        pairs = compare(embeddings, labels, references, normalization="unit", anchors=self.anchors)
        similarities = pairwise_inner_products(pairs.anchors, pairs.references)  # [anchors, references]
        # Only references that are a positive of some anchor need the full row.
        columns = tf.where(tf.reduce_any(pairs.positive, axis=0))[:, 0]  # [positives]
        positives = tf.gather(pairs.references, columns)
        of_positives = pairwise_inner_products(positives, pairs.references)
        tangent = math.tan(math.radians(self.angle)) ** 2
        sums = log_sum_exp_of_sums(4.0 * tangent, similarities, of_positives, pairs.negative)
        # A product of its own: columns gathered from a batch without embeddings have no gradient in TensorFlow.
        logits = sums - 2.0 * (1.0 + tangent) * pairwise_inner_products(pairs.anchors, positives)
        has_negatives = tf.reduce_any(pairs.negative, axis=1, keepdims=True)
        return masked_mean(tf.math.softplus(logits), tf.gather(pairs.positive, columns, axis=1) & has_negatives)

    def get_config(self) -> dict:
        """Return the constructor's arguments."""
        return {**super().get_config(), "angle": self.angle, "anchors": self.anchors}
