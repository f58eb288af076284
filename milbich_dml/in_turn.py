"""Losses that take turns, one for each training step."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import tensorflow as tf
from tensorflow import keras

from common.losses.composed_loss import LossOfParts
from common.losses.metric_loss import MetricLoss
from common.references.reference_set import References


@keras.utils.register_keras_serializable(package="deep_metric_learning")
class InTurnLoss(LossOfParts):
    """One of several losses per training step, in turn.

    At step s it is `loss_{s mod n}(embeddings, labels, references)`. The step is a weight that advances in calls with
    `training=True`, so a resumed run keeps the turn. The other losses have no gradient, and their memory and counters
    do not change. XLA cannot compile the gradient if the batch size is unknown.

    Reference: Milbich's dissertation, algorithm 1: the tasks of two features step alternately, each on its own batch.

    Args:
        losses: the `MetricLoss`es, at least one. Each normalises for itself; `normalization` is the one that they
            share, or `"none"`.
        **kwargs: `name`, `dtype`; see `MetricLoss`.

    Call arguments: those of `MetricLoss` (`[batch, dim]`, `[batch]`), and `training`.

    Raises:
        InvalidInput: no loss, or something else than a loss.

    Examples:
        >>> loss = InTurnLoss([ComponentLoss(MarginLoss(), 0, 64), ComponentLoss(TripletLoss(), 64, 64)])
        >>> loss(tf.random.normal([32, 128]), tf.repeat(tf.range(8), 4), training=True)
    """

    def __init__(self, losses: Sequence[MetricLoss], **kwargs: Any) -> None:
        super().__init__(losses, **kwargs)
        self.step = self.add_weight(name="step", shape=(), dtype="int64", initializer="zeros", trainable=False)

    def call(
        self,
        embeddings: tf.Tensor,
        labels: tf.Tensor,
        references: References | None = None,
        training: bool | None = None,
        sample_weight: tf.Tensor | None = None,
    ) -> tf.Tensor:
        """Return the loss of a batch; see the class."""
        turn = tf.cast(tf.convert_to_tensor(self.step) % len(self.parts), tf.int32)
        if training:
            self.step.assign_add(1)

        def value_of(place: int) -> tf.Tensor:
            """Return the loss of a part, if it is its turn; else 0.

            `tf.switch_case` would abort under XLA, and TensorFlow logs a type error of the gradient of a condition with
            a loss in either branch.
            """
            part = self.parts[place]
            return tf.cond(
                turn == place,
                lambda: part(embeddings, labels, references, training=training, sample_weight=sample_weight),
                lambda: tf.zeros([], part.compute_dtype),
            )

        return tf.add_n([value_of(place) for place in range(len(self.parts))])
