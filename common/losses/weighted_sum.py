"""A weighted sum of metric losses is a metric loss."""

from __future__ import annotations

from collections.abc import Sequence

import tensorflow as tf
from tensorflow import keras

from common.errors import invalid
from common.losses.composed_loss import LossOfParts
from common.losses.metric_loss import MetricLoss
from common.parameters import LayerArguments, Unpack
from common.references.reference_set import References


@keras.utils.register_keras_serializable(package="deep_metric_learning")
class WeightedSumLoss(LossOfParts):
    """`Σ_i w_i loss_i(embeddings, labels, references)`: all losses see the same references.

    Args:
        losses: the `MetricLoss`es, at least one. Each normalises for itself; `normalization` is the one that they
            share, or `"none"`.
        weights: one number for each loss; None: 1 each.
        **kwargs: `name`, `dtype`; see `MetricLoss`.

    Raises:
        InvalidInput: no loss, something else than a loss, or not as many weights as losses.

    Examples:
        >>> WeightedSumLoss([ContrastiveLoss(), MultiSimilarityLoss()], [1.0, 0.5])(embeddings, labels)
    """

    def __init__(
        self, losses: Sequence[MetricLoss], weights: Sequence[float] | None = None, **kwargs: Unpack[LayerArguments]
    ) -> None:
        super().__init__(losses, **kwargs)
        weights = [1.0] * len(losses) if weights is None else list(weights)
        if len(weights) != len(losses):
            raise invalid("weights", received=weights, expected=f"one number for each of {len(losses)} losses")
        self.part_weights = tuple(weights)

    def call(
        self,
        embeddings: tf.Tensor,
        labels: tf.Tensor,
        references: References | None = None,
        training: bool | None = None,
        sample_weight: tf.Tensor | None = None,
    ) -> tf.Tensor:
        """Return the loss of a batch; see `MetricLoss`."""
        del training  # Keras hands it on to the parts; Keras 2 only from a call that takes it
        arguments = embeddings, labels, references
        terms = [w * part(*arguments, sample_weight=sample_weight) for w, part in zip(self.part_weights, self.parts)]
        return tf.add_n(terms)

    def get_config(self) -> dict:
        """Return the constructor's arguments."""
        return {**super().get_config(), "weights": list(self.part_weights)}
