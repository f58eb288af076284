"""A loss over groups of training images, which clustering finds and may find anew."""

from __future__ import annotations

from typing import Any

import numpy as np
import tensorflow as tf
from tensorflow import keras

from common.errors import check_positive, invalid
from common.losses.composed_loss import LossAround
from common.losses.metric_loss import MetricLoss
from common.ops.pair_masks import integer_labels
from common.references.reference_set import References


@keras.utils.register_keras_serializable(package="deep_metric_learning")
class GroupLabelsLoss(LossAround):
    """`loss(embeddings, g[places], references)`, g the group of each training image.

    Labels are places in the training set instead of classes. The groups are a weight of the loss, so checkpoints and
    saved models have them; `set_groups` changes them, and `common.training.Regrouping` does so while a model trains.
    Until then all images are of one group.

    Reference: Milbich's dissertation, section 3.1.2 and equation 3.3 (T^G, after MIC).

    Gradient: that of the loss; none through the groups.

    Args:
        loss: the `MetricLoss` of group labels.
        num_examples: images of the training set, at least 1.
        **kwargs: `name`, `dtype`; see `MetricLoss`.

    Input shape: embeddings `[batch, dim]`, labels `[batch]` in `[0, num_examples)`; those of references likewise.

    Raises:
        InvalidInput: `num_examples` is out of its range.
        tf.errors.InvalidArgumentError: in the call, a place that is not in the training set (not checked inside XLA).

    Examples:
        >>> loss = GroupLabelsLoss(MinedLoss(MarginLoss(), "distance_weighted"), num_examples=1000)
        >>> loss.set_groups(np.arange(1000) % 30)
        >>> loss(tf.random.normal([32, 128]), tf.range(32))
    """

    def __init__(self, loss: MetricLoss, num_examples: int, **kwargs: Any) -> None:
        super().__init__(loss, **kwargs)
        self.num_examples = check_positive("num_examples", num_examples)
        shape = (num_examples,)
        self.groups = self.add_weight(name="groups", shape=shape, dtype="int64", initializer="zeros", trainable=False)

    def set_groups(self, groups: np.ndarray) -> None:
        """Set the group of each training image.

        Args:
            groups: integers of at least 0, `[num_examples]`.

        Raises:
            InvalidInput: of another shape, or no such integers.
        """
        groups = np.asarray(groups)
        right = groups.shape == (self.num_examples,) and np.issubdtype(groups.dtype, np.integer)
        if not right or groups.min() < 0:
            expected = f"integers of at least 0, [{self.num_examples}]"
            raise invalid("groups", received=f"{groups.dtype} {list(groups.shape)}", expected=expected)
        self.groups.assign(groups.astype(np.int64))

    def call(
        self,
        embeddings: tf.Tensor,
        labels: tf.Tensor,
        references: References | None = None,
        training: bool | None = None,
    ) -> tf.Tensor:
        """Return the loss of a batch; see the class."""
        del training  # Keras hands it on to the loss
        if references is not None:
            references = references._replace(labels=self.groups_of(references.labels, references.valid))
        return self.loss(embeddings, self.groups_of(labels), references)

    def groups_of(self, places: tf.Tensor, valid: tf.Tensor | None = None) -> tf.Tensor:
        """Return the groups of training images.

        Args:
            places: in `[0, num_examples)`, `[n]`.
            valid: bool `[n]`, the places that count; None: all.

        Raises:
            tf.errors.InvalidArgumentError: a place is not in the training set (not checked inside XLA).
        """
        places = integer_labels(places)
        nearest = tf.clip_by_value(places, 0, self.num_examples - 1)
        right = places == nearest if valid is None else (places == nearest) | ~tf.convert_to_tensor(valid)
        expected = f"Invalid places in the training set: expected 0..{self.num_examples - 1}. Received:"
        tf.debugging.Assert(tf.reduce_all(right), [expected, places])
        return tf.gather(tf.convert_to_tensor(self.groups), nearest)

    def get_config(self) -> dict:
        """Return the constructor's arguments."""
        return {**super().get_config(), "num_examples": self.num_examples}
