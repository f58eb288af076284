"""Losses of batches whose labels give each row's class and training image."""

from __future__ import annotations

from typing import Any

import tensorflow as tf
from tensorflow import keras

from common.errors import check_choice, invalid
from common.losses.class_ids import class_column
from common.losses.composed_loss import LossAround
from common.losses.metric_loss import MetricLoss
from common.references.reference_set import References

CLASS, PLACE = "class", "place"
_COLUMNS = (CLASS, PLACE)  # in the order of `common.data.training_batches(..., with_places=True)`


@keras.utils.register_keras_serializable(package="deep_metric_learning")
class LabelColumnLoss(LossAround):
    """`loss(embeddings, labels[:, column], references)` for labels with two entries a row.

    In a sum of losses each takes the column that it is of: classes for those that compare classes, places for a
    `GroupLabelsLoss`. Neither has to know of the other.

    Args:
        loss: any `MetricLoss`.
        column: `class` (the first) or `place` (the second: of the image in the training set, from 0).
        **kwargs: `name`, `dtype`; see `MetricLoss`.

    Input shape: embeddings `[batch, dim]`, labels `[batch, 2]`. Labels `[batch]` are classes, where `column` is
        `class`. References have one label each, of the kind that the loss takes.

    Raises:
        InvalidInput: an unknown column; in the call, labels without places where the loss is of places.

    Examples:
        >>> loss = LabelColumnLoss(MarginLoss(), "class")
        >>> loss(tf.random.normal([4, 8]), tf.constant([[0, 17], [0, 5], [1, 3], [1, 4]]))
    """

    def __init__(self, loss: MetricLoss, column: str = "class", **kwargs: Any) -> None:
        super().__init__(loss, **kwargs)
        self.column = check_choice("column", column, _COLUMNS)

    def call(
        self,
        embeddings: tf.Tensor,
        labels: tf.Tensor,
        references: References | None = None,
        training: bool | None = None,
        sample_weight: tf.Tensor | None = None,
    ) -> tf.Tensor:
        """Return the loss of a batch; see the class."""
        del training  # Keras hands it on to the loss
        return self.loss(embeddings, self._column_of(labels), references, sample_weight=sample_weight)

    def _column_of(self, labels: tf.Tensor) -> tf.Tensor:
        labels = tf.convert_to_tensor(labels)
        if self.column == CLASS:
            return class_column(labels)
        if labels.shape.rank != 2 or labels.dtype.is_bool:
            expected = "[batch, 2]: a class and a place in the training set for each row"
            raise invalid("shape of labels", received=tuple(labels.shape), expected=expected)
        return labels[:, 1]

    def get_config(self) -> dict:
        """Return the constructor's arguments."""
        return {**super().get_config(), "column": self.column}
