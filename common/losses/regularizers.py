"""Regularisers of embeddings: KoLeo, coding rate, threshold-consistent margins.

Each is a loss to be added to another one, with a weight: `WeightedSumLoss([loss, KoLeoLoss()], [1.0, 0.1])`.
"""

from __future__ import annotations

import tensorflow as tf
from tensorflow import keras

from common.losses.metric_loss import MetricLoss
from common.ops.distances import pairwise_inner_products
from common.ops.normalization import normalize
from common.ops.reductions import masked_mean
from common.parameters import LossArguments, Positive, Unpack, checked
from common.references.comparison import Comparison, compare
from common.references.reference_set import References

_SMALLEST_DISTANCE = 1e-8


def koleo(embeddings: tf.Tensor) -> tf.Tensor:
    """Return `-mean_i log min_{j≠i} ‖x_i - x_j‖`, the estimator of negative entropy.

    Distances count as at least 1e-8, so coincident embeddings have a finite value and gradient.

    Args:
        embeddings: `[batch, dim]`.

    Returns:
        A scalar; 0 for fewer than two embeddings. Exact gradient, with the nearest fixed.
    """
    size = tf.shape(embeddings, tf.int64)[0]
    nearness = pairwise_inner_products(embeddings, embeddings) - 0.5 * tf.reduce_sum(embeddings**2, axis=1)
    nearness = tf.linalg.set_diag(nearness, tf.fill([size], tf.constant(-float("inf"), nearness.dtype)))
    # The further column keeps an empty batch from being an error.
    nearest = tf.argmax(tf.pad(nearness, [[0, 0], [0, 1]], constant_values=-float("inf")), axis=1)
    others = tf.gather(embeddings, tf.minimum(nearest, tf.maximum(size - 1, 0)))
    squared = tf.reduce_sum((embeddings - others) ** 2, axis=1)
    logs = 0.5 * tf.math.log(tf.maximum(squared, _SMALLEST_DISTANCE**2))
    return -masked_mean(logs, tf.fill([size], size > 1))


def coding_rate(embeddings: tf.Tensor, precision: float) -> tf.Tensor:
    """Return `½ log det(I + d / (n ε²) XᵀX)`, in nats.

    Computed in float64, by the Cholesky factor of a matrix `[dim, dim]`.

    Args:
        embeddings: X `[n, d]`.
        precision: ε, the distortion that is allowed, greater than 0.

    Returns:
        A scalar of the embeddings' type; 0 without embeddings, NaN if one is not finite. Exact gradient.
    """
    x = tf.cast(embeddings, tf.float64)
    count, dim = (tf.cast(tf.maximum(size, 1), tf.float64) for size in tf.unstack(tf.shape(x)))
    covariance = tf.matmul(x, x, transpose_a=True) * (dim / (count * precision**2))
    is_finite = tf.reduce_all(tf.math.is_finite(covariance))  # the factor of anything else is an error
    covariance = tf.where(is_finite, covariance, tf.zeros_like(covariance))
    factor = tf.linalg.cholesky(covariance + tf.eye(tf.shape(x)[1], dtype=tf.float64))
    rate = tf.reduce_sum(tf.math.log(tf.linalg.diag_part(factor)))
    return tf.cast(tf.where(is_finite, rate, tf.constant(float("nan"), tf.float64)), embeddings.dtype)


def threshold_consistent_margin(
    pairs: Comparison, similarities: tf.Tensor, positive_margin: float, negative_margin: float
) -> tf.Tensor:
    """Return the mean gaps of hard pairs to two margins of the similarity.

    `mean_{s ≤ m⁺} (m⁺ - s)` over positives plus `mean_{s ≥ m⁻} (s - m⁻)` over negatives.

    Args:
        pairs: the anchors and references.
        similarities: s of all pairs `[anchors, references]`.
        positive_margin: m⁺.
        negative_margin: m⁻.

    Returns:
        A scalar; a kind without hard pairs contributes 0. Exact gradient, with the hard pairs fixed.
    """
    missing, excess = positive_margin - similarities, similarities - negative_margin
    pull = masked_mean(pairs.weighted(missing), pairs.positive & ~(missing < 0.0))  # so that NaN counts, too
    return pull + masked_mean(pairs.weighted(excess), pairs.negative & ~(excess < 0.0))


@keras.utils.register_keras_serializable(package="deep_metric_learning")
class KoLeoLoss(MetricLoss):
    """KoLeo: spreads a batch by the distance of each embedding from its nearest.

    `-mean_i log min_{j≠i} ‖x_i - x_j‖` over the batch, whatever the classes; distances count as at least 1e-8.

    Reference: Sablayrolles, Douze, Schmid, Jégou: Spreading Vectors for Similarity Search, ICLR 2019.

    Gradient: exact, with the nearest fixed.

    Args:
        **kwargs: `normalization`, `name`, `dtype`; see `MetricLoss`.

    Call arguments: those of `MetricLoss`; labels and references are ignored.

    Examples:
        >>> WeightedSumLoss([MultiSimilarityLoss(), KoLeoLoss()], [1.0, 0.1])(embeddings, labels)
    """

    def call(self, embeddings: tf.Tensor, labels: tf.Tensor, references: References | None = None) -> tf.Tensor:
        """Return the loss of a batch; see the class."""
        del labels, references
        return koleo(normalize(embeddings, self.normalization))


@keras.utils.register_keras_serializable(package="deep_metric_learning")
class CodingRateLoss(MetricLoss):
    """Coding rate: minus the volume that a batch's embeddings span, against collapse.

    `-½ log det(I + d / (n ε²) XᵀX)` of n embeddings X `[n, d]`, whatever the classes.

    Reference: Yu, Chan, You, Song, Ma: Learning Diverse and Discriminative Representations via the Principle of Maximal
    Coding Rate Reduction, NeurIPS 2020 (the rate); Jiang, Yao, Dai, Shen, Nie, Shen: Anti-Collapse Loss for Deep Metric
    Learning Based on Coding Rate Metric, 2024, which maximises it beside a metric loss.

    Gradient: exact.

    Args:
        precision: ε, greater than 0; smaller ones make more directions count.
        **kwargs: `normalization`, `name`, `dtype`; see `MetricLoss`.

    Call arguments: those of `MetricLoss`; labels and references are ignored.

    Raises:
        InvalidInput: a precision that is not greater than 0.

    Examples:
        >>> WeightedSumLoss([ProxyAnchorLoss(100, 128), CodingRateLoss()], [1.0, 0.01])(embeddings, labels)
    """

    @checked
    def __init__(self, precision: Positive = 0.5, **kwargs: Unpack[LossArguments]) -> None:
        super().__init__(**kwargs)
        self.precision = precision

    def call(self, embeddings: tf.Tensor, labels: tf.Tensor, references: References | None = None) -> tf.Tensor:
        """Return the loss of a batch; see the class."""
        del labels, references
        return -coding_rate(normalize(embeddings, self.normalization), self.precision)

    def get_config(self) -> dict:
        """Return the constructor's arguments."""
        return {**super().get_config(), "precision": self.precision}


@keras.utils.register_keras_serializable(package="deep_metric_learning")
class ThresholdConsistentMarginLoss(MetricLoss):
    """Threshold-consistent margin (TCM): pulls all classes' similarities to two common margins.

    `mean_{s ≤ m⁺} (m⁺ - s)` over positives plus `mean_{s ≥ m⁻} (s - m⁻)` over negatives: only hard pairs count. One
    threshold between the margins then means the same for each class (`operating_point_inconsistency` measures it).

    Reference: Zhang, Xu, Tang, Fang, Wu, Tighe, Xing: Threshold-Consistent Margin Loss for Open-World Deep Metric
    Learning, ICLR 2024, with one weight for both terms.

    Gradient: exact, with the hard pairs fixed.

    Args:
        positive_margin: m⁺, a cosine.
        negative_margin: m⁻, a cosine.
        **kwargs: `normalization`, `name`, `dtype`; see `MetricLoss`.

    Examples:
        >>> WeightedSumLoss([MultiSimilarityLoss(), ThresholdConsistentMarginLoss()])(embeddings, labels)
    """

    def __init__(
        self, positive_margin: float = 0.9, negative_margin: float = 0.5, **kwargs: Unpack[LossArguments]
    ) -> None:
        super().__init__(**kwargs)
        self.positive_margin, self.negative_margin = positive_margin, negative_margin

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
        return threshold_consistent_margin(pairs, similarities, self.positive_margin, self.negative_margin)

    def get_config(self) -> dict:
        """Return the constructor's arguments."""
        margins = {"positive_margin": self.positive_margin, "negative_margin": self.negative_margin}
        return {**super().get_config(), **margins}
