"""The lifted structure loss, the printed one and the generalised one."""

from __future__ import annotations

import tensorflow as tf
from tensorflow import keras

from common.losses.metric_loss import MetricLoss
from common.ops.distances import pairwise_distances
from common.ops.normalization import mean_norm
from common.ops.reductions import log_sum_exp, masked_mean
from common.parameters import Anchors, Distance, LossArguments, NotNegative, Unpack, checked
from common.references.comparison import compare
from common.references.reference_set import References


def lifted_structure(distances: tf.Tensor, positive: tf.Tensor, negative: tf.Tensor, margin: float) -> tf.Tensor:
    """Return the lifted structure loss over positive pairs that have a negative.

    `mean_ap ½ [log(Σ_n e^{m - d_an} + Σ_n e^{m - d_pn}) + d_ap]₊²`.

    Args:
        distances: `[anchors, references]`.
        positive: bool, `[anchors, references]`.
        negative: bool, `[anchors, references]`.
        margin: m.

    Returns:
        A scalar. The negatives of the positive p are the anchors that it is a negative of.
    """
    sums = [log_sum_exp(margin - distances, negative, axis) for axis in (1, 0)]  # [anchors], [references]
    occupied = [tf.reduce_any(negative, axis=axis) for axis in (1, 0)]

    def both(pair: list[tf.Tensor]) -> tf.Tensor:
        of_anchors, of_references = pair
        parts = of_anchors[:, None], of_references[None, :]
        return tf.stack(
            [tf.broadcast_to(part, tf.shape(distances)) for part in parts], axis=-1
        )  # [anchors, references, 2]

    terms = tf.nn.relu(log_sum_exp(both(sums), both(occupied)) + distances)
    return masked_mean(0.5 * terms**2, positive & tf.reduce_any(both(occupied), axis=-1))


def generalized_lifted_structure(
    distances: tf.Tensor, positive: tf.Tensor, negative: tf.Tensor, margin: float
) -> tf.Tensor:
    """Return the generalised loss over anchors with a positive and a negative.

    `mean_a [log Σ_p e^{d_ap} + log Σ_n e^{m - d_an}]₊`.

    Args:
        distances: `[anchors, references]`.
        positive: bool, `[anchors, references]`.
        negative: bool, `[anchors, references]`.
        margin: m.

    Returns:
        A scalar.
    """
    terms = log_sum_exp(distances, positive) + log_sum_exp(margin - distances, negative)  # [anchors]
    return masked_mean(tf.nn.relu(terms), tf.reduce_any(positive, axis=1) & tf.reduce_any(negative, axis=1))


@keras.utils.register_keras_serializable(package="deep_metric_learning")
class LiftedStructureLoss(MetricLoss):
    """Lifted structure loss on (unsquared) Euclidean distances.

    `mean_ap ½ [log(Σ_n e^{m - d_an} + Σ_n e^{m - d_pn}) + d_ap]₊² + ν mean ‖x‖`; generalised:
    `mean_a [log Σ_p e^{d_ap} + log Σ_n e^{m - d_an}]₊ + ν mean ‖x‖`.

    Reference: Song, Xiang, Jegelka, Savarese: Deep Metric Learning via Lifted Structured Feature Embedding, CVPR 2016;
    Hermans, Beyer, Leibe: In Defense of the Triplet Loss, 2017, for the generalised one, which Milbich's dissertation,
    chapter 2, uses ("GenLifted": m = 1, ν = .005, embeddings not normalised).

    Args:
        margin: m, at least 0.
        generalized: which of the two.
        norm_penalty: ν, at least 0; of the embeddings as they come, before the loss normalises them.
        anchors: `"embeddings"` or `"references"`; see `MultiSimilarityLoss`.
        **kwargs: `normalization`, `name`, `dtype`; see `MetricLoss`.

    Examples:
        >>> LiftedStructureLoss(generalized=True)(tf.random.normal([32, 128]), tf.repeat(tf.range(8), 4))
    """

    @checked
    def __init__(
        self,
        margin: Distance = 1.0,
        generalized: bool = False,
        norm_penalty: NotNegative = 0.0,
        anchors: Anchors = "embeddings",
        **kwargs: Unpack[LossArguments],
    ) -> None:
        super().__init__(**kwargs)
        self.margin = margin
        self.generalized = bool(generalized)
        self.norm_penalty = norm_penalty
        self.anchors = anchors

    def call(self, embeddings: tf.Tensor, labels: tf.Tensor, references: References | None = None) -> tf.Tensor:
        """Return the loss of a batch; see `MetricLoss`."""
        pairs = compare(embeddings, labels, references, normalization=self.normalization, anchors=self.anchors)
        distances = pairwise_distances(pairs.anchors, pairs.references)
        loss_of = generalized_lifted_structure if self.generalized else lifted_structure
        loss = loss_of(distances, pairs.positive, pairs.negative, self.margin)
        return loss + self.norm_penalty * mean_norm(embeddings) if self.norm_penalty else loss

    def get_config(self) -> dict:
        """Return the constructor's arguments."""
        return {
            **super().get_config(),
            "margin": self.margin,
            "generalized": self.generalized,
            "norm_penalty": self.norm_penalty,
            "anchors": self.anchors,
        }
