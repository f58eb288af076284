"""A loss over labels that are shuffled within each batch."""

from __future__ import annotations

from typing import Any

import tensorflow as tf
from tensorflow import keras

from common.losses.composed_loss import LossAround
from common.losses.metric_loss import MetricLoss
from common.miners.triplets import uniform_of
from common.parameters import CountOrZero, checked
from common.references.reference_set import References


@keras.utils.register_keras_serializable(package="deep_metric_learning")
class PermutedLabelsLoss(LossAround):
    """`loss(embeddings, π(labels), references)` with a permutation π drawn anew at each training step.

    A batch keeps the number of images of each class, but which they are is chance: the control of tasks that look at
    more than one class.

    Reference: Milbich's dissertation, table 3.10 ("NoConstr"), read as the public code draws it.

    Args:
        loss: any `MetricLoss`.
        seed: at least 0; π is a function of it and of the step.
        **kwargs: `name`, `dtype`; see `MetricLoss`.

    Call arguments: those of `MetricLoss` (`[batch, dim]`, `[batch]`), and `training`. Labels of references stay.

    Examples:
        >>> loss = PermutedLabelsLoss(MinedLoss(MarginLoss(), "distance_weighted"), seed=1)
        >>> loss(tf.random.normal([32, 128]), tf.repeat(tf.range(8), 4), training=True)
    """

    @checked
    def __init__(self, loss: MetricLoss, seed: CountOrZero = 0, **kwargs: Any) -> None:
        super().__init__(loss, **kwargs)
        self.seed = seed
        self.step = self.add_weight(name="step", shape=(), dtype="int64", initializer="zeros", trainable=False)

    def call(
        self,
        embeddings: tf.Tensor,
        labels: tf.Tensor,
        references: References | None = None,
        training: bool | None = None,
    ) -> tf.Tensor:
        """Return the loss of a batch; see the class."""
        permuted = self.permuted(labels)
        if training:
            self.step.assign_add(1)
        return self.loss(embeddings, permuted, references)

    def permuted(self, labels: tf.Tensor) -> tf.Tensor:
        """Return the labels `[batch]` in the order of this step."""
        labels = tf.convert_to_tensor(labels)
        seed = tf.stack([tf.constant(self.seed, tf.int64), tf.convert_to_tensor(self.step)])
        return tf.gather(labels, tf.argsort(uniform_of(seed, 0, tf.shape(labels)[:1]), stable=True))

    def get_config(self) -> dict:
        """Return the constructor's arguments."""
        return {**super().get_config(), "seed": self.seed}
