"""Losses of batches that hold each image in two views."""

from __future__ import annotations

from typing import Any

import tensorflow as tf
from tensorflow import keras

from common.errors import invalid
from common.losses.composed_loss import LossAround
from common.losses.metric_loss import MetricLoss
from common.references.reference_set import References


@keras.utils.register_keras_serializable(package="deep_metric_learning")
class ViewLoss(LossAround):
    """A loss of batches of two views, in two halves.

    The second half of a batch `[2 n, dim]` shows the images of the first half in another view. With `first_alone` the
    loss is `loss(first half)`, as without views. Otherwise it is `loss(first half, 0..n-1, References(second half,
    0..n-1))`: each image is its own class, with its other view as only positive. Batches come from
    `common.data.TwoViews`.

    Reference: Milbich's dissertation, section 4.1.1 (the sample-specific features).

    Args:
        loss: the `MetricLoss` of the views. It normalises; this one only tells how.
        first_alone: which of the two, see above.
        **kwargs: `name`, `dtype`; see `MetricLoss`.

    Call arguments: those of `MetricLoss` for `2 n` rows. With `first_alone` references are handed on; otherwise the
        second view takes their place, and there must be none.

    Raises:
        InvalidInput: in the call, an odd number of rows, or references that have no place.

    Examples:
        >>> loss = ViewLoss(MarginLoss(), first_alone=True)
        >>> loss(tf.random.normal([64, 128]), tf.tile(tf.repeat(tf.range(8), 4), [2]))
    """

    def __init__(self, loss: MetricLoss, first_alone: bool, **kwargs: Any) -> None:
        super().__init__(loss, **kwargs)
        self.first_alone = first_alone

    def call(
        self,
        embeddings: tf.Tensor,
        labels: tf.Tensor,
        references: References | None = None,
        training: bool | None = None,
    ) -> tf.Tensor:
        """Return the loss of a batch; see the class."""
        del training  # Keras hands it on to the loss
        embeddings, labels = tf.convert_to_tensor(embeddings), tf.convert_to_tensor(labels)
        num_rows = embeddings.shape[0]
        if num_rows is not None and num_rows % 2:
            raise invalid("rows of the batch", received=num_rows, expected="an even number: two views of each image")
        size = tf.shape(embeddings)[0] // 2
        if self.first_alone:
            return self.loss(embeddings[:size], labels[:size], references)
        if references is not None:
            expected = "none: the second view is what the first one is compared with"
            raise invalid("references", received="a reference set", expected=expected)
        images = tf.range(tf.cast(size, tf.int64))
        return self.loss(embeddings[:size], images, References(embeddings[size:], images))

    def get_config(self) -> dict:
        """Return the constructor's arguments."""
        return {**super().get_config(), "first_alone": self.first_alone}
