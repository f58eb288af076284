"""C2: the contrastive loss on Euclidean distances."""

from __future__ import annotations

import tensorflow as tf
from tensorflow import keras

from common.losses.metric_loss import MetricLoss
from common.ops.distances import pairwise_distances
from common.ops.reductions import mean_of_nonzero
from common.parameters import Distance, LossArguments, Unpack, checked
from common.references.comparison import compare
from common.references.reference_set import References


def contrastive(
    distances: tf.Tensor, positive: tf.Tensor, negative: tf.Tensor, positive_margin: float, negative_margin: float
) -> tf.Tensor:
    """Return `mean_{>0} [d - m⁺]₊` over positives plus `mean_{>0} [m⁻ - d]₊` over negatives.

    Args:
        distances: `[anchors, references]`.
        positive: bool, `[anchors, references]`.
        negative: bool, `[anchors, references]`.
        positive_margin: m⁺, the distance below which a positive pair is close enough.
        negative_margin: m⁻, the distance beyond which a negative pair is far enough.

    Returns:
        A scalar.
    """
    nothing = tf.zeros_like(distances)
    too_far = tf.where(positive, tf.nn.relu(distances - positive_margin), nothing)
    too_close = tf.where(negative, tf.nn.relu(negative_margin - distances), nothing)
    return mean_of_nonzero(too_far) + mean_of_nonzero(too_close)


@keras.utils.register_keras_serializable(package="deep_metric_learning")
class ContrastiveLoss(MetricLoss):
    """Contrastive loss C2 on (unsquared) Euclidean distances.

    `mean_{>0} [d - m⁺]₊` over positive pairs + `mean_{>0} [m⁻ - d]₊` over negative pairs: each mean is over the terms
    that are greater than zero.

    Reference: thesis 3.3.2.1 ("C2"); Hadsell, Chopra, LeCun, CVPR 2006, without the squares.

    Args:
        positive_margin: m⁺, at least 0. Unit embeddings are at distances 0..2.
        negative_margin: m⁻, at least 0.
        **kwargs: `normalization`, `name`, `dtype`; see `MetricLoss`.

    Examples:
        >>> loss = ContrastiveLoss(positive_margin=0.2652, negative_margin=0.5409)
        >>> loss(tf.random.normal([32, 128]), tf.repeat(tf.range(8), 4))
    """

    @checked
    def __init__(
        self, positive_margin: Distance = 0.0, negative_margin: Distance = 0.5, **kwargs: Unpack[LossArguments]
    ) -> None:
        super().__init__(**kwargs)
        self.positive_margin = positive_margin
        self.negative_margin = negative_margin

    def call(self, embeddings: tf.Tensor, labels: tf.Tensor, references: References | None = None) -> tf.Tensor:
        """Return the loss of a batch; see `MetricLoss`."""
        pairs = compare(embeddings, labels, references, normalization=self.normalization)
        distances = pairwise_distances(pairs.anchors, pairs.references)
        return contrastive(distances, pairs.positive, pairs.negative, self.positive_margin, self.negative_margin)

    def get_config(self) -> dict:
        """Return the constructor's arguments."""
        margins = {"positive_margin": self.positive_margin, "negative_margin": self.negative_margin}
        return {**super().get_config(), **margins}
