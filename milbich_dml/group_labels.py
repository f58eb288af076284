"""A loss over groups of training images, which clustering finds and may find anew."""

from __future__ import annotations

from typing import Any

import numpy as np
import tensorflow as tf
from tensorflow import keras

from common.errors import invalid
from common.losses.composed_loss import LossAround
from common.losses.metric_loss import MetricLoss
from common.ops.pair_masks import are_all_right, integer_labels
from common.parameters import Count, checked
from common.references.reference_set import References


@keras.utils.register_keras_serializable(package="deep_metric_learning")
class GroupLabelsLoss(LossAround):
    """`loss(embeddings, g[places], references)`, g the group of each training image.

    Labels are places in the training set instead of classes. The groups are a weight of the loss, so checkpoints and
    saved models have them; `set_groups` changes them, and `milbich_dml.Regrouping` does so while a model trains.
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
        tf.errors.InvalidArgumentError: in the call, a place that is not in the training set. XLA, which drops checks,
            makes the loss NaN.

    Examples:
        >>> loss = GroupLabelsLoss(MinedLoss(MarginLoss(), "distance_weighted"), num_examples=1000)
        >>> loss.set_groups(np.arange(1000) % 30)
        >>> loss(tf.random.normal([32, 128]), tf.range(32))
    """

    @checked
    def __init__(self, loss: MetricLoss, num_examples: Count, **kwargs: Any) -> None:
        super().__init__(loss, **kwargs)
        self.num_examples = num_examples
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
        sample_weight: tf.Tensor | None = None,
    ) -> tf.Tensor:
        """Return the loss of a batch; see the class."""
        del training  # Keras hands it on to the loss
        if references is not None:
            references = references._replace(labels=self.groups_of(references.labels))
        return self.loss(embeddings, self.groups_of(labels), references, sample_weight=sample_weight)

    def check_labels(self, labels: tf.Tensor, references: References | None = None) -> tf.Tensor:
        """Reject places outside the training set."""
        if references is None:
            return self._check_places(labels, True)
        valid = True if references.valid is None else tf.convert_to_tensor(references.valid)
        return self._check_places(labels, True) & self._check_places(references.labels, valid)

    def _check_places(self, places: tf.Tensor, valid: tf.Tensor | bool) -> tf.Tensor:
        places = integer_labels(places)
        right = ((places >= 0) & (places < self.num_examples)) | tf.logical_not(valid)
        expected = f"Invalid places in the training set: expected 0..{self.num_examples - 1}."
        return are_all_right(right, places, expected)

    def groups_of(self, places: tf.Tensor) -> tf.Tensor:
        """Return the groups of training images (for places outside, the nearest's).

        Args:
            places: integers, `[n]`.
        """
        nearest = tf.clip_by_value(integer_labels(places), 0, self.num_examples - 1)
        return tf.gather(tf.convert_to_tensor(self.groups), nearest)

    def get_config(self) -> dict:
        """Return the constructor's arguments."""
        return {**super().get_config(), "num_examples": self.num_examples}
