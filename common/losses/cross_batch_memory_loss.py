"""XBM: a loss over the batch plus the same loss over previous batches' embeddings."""

from __future__ import annotations

from typing import Any

import tensorflow as tf
from tensorflow import keras

from common.errors import check_non_negative
from common.losses.composed_loss import LossAround
from common.losses.metric_loss import MetricLoss
from common.references.cross_batch_memory import CrossBatchMemory
from common.references.reference_set import References


@keras.utils.register_keras_serializable(package="deep_metric_learning")
class CrossBatchMemoryLoss(LossAround):
    """XBM around any metric loss: `loss(batch) + w · loss(batch, memory)`.

    The memory holds the embeddings of the last batches, as they came and without gradient; the loss normalises them.
    Memory and step counter advance in calls with `training=True` only. The second term is 0 for the first
    `start_step` steps, while the embeddings still drift fast.

    Reference: thesis 3.3.2.1 ("XBM": starts after 1,000 steps); Wang, Zhang, Huang, Scott: Cross-Batch Memory for
    Embedding Learning, CVPR 2020. The published code of the thesis sets both switches below.

    Args:
        loss: the `MetricLoss` of both terms. It normalises; this one only tells how.
        memory_size: number of embeddings in the memory (batches of memory times batch size).
        embedding_dim: number of components of an embedding.
        start_step: number of training steps before the second term.
        weight: w, of the second term, at least 0.
        fill_before_start: whether the steps that fill the memory, `ceil(memory_size / batch)`, come on top of
            `start_step`.
        enqueue_first: whether the batch enters the memory before it is compared with it, so that each sample
            meets itself as a positive. By default it enters afterwards.
        num_classes: of images with several labels each, whose labels are bools `[batch, num_classes]`; None: labels
            are class ids.
        **kwargs: `name`, `dtype`; see `MetricLoss`.

    Call arguments: those of `MetricLoss`, and `training`. With `references` the first term is over them.

    Examples:
        >>> loss = CrossBatchMemoryLoss(CosineContrastiveLoss(), memory_size=25 * 32, embedding_dim=128)
        >>> loss(tf.random.normal([32, 128]), tf.repeat(tf.range(8), 4), training=True)
    """

    def __init__(
        self,
        loss: MetricLoss,
        memory_size: int,
        embedding_dim: int,
        start_step: int = 1000,
        weight: float = 1.0,
        fill_before_start: bool = False,
        enqueue_first: bool = False,
        num_classes: int | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(loss, **kwargs)
        self.memory = CrossBatchMemory(memory_size, embedding_dim, num_classes, dtype=self.dtype)
        self.start_step = check_non_negative("start_step", start_step)
        self.weight = check_non_negative("weight", weight)
        self.fill_before_start = fill_before_start
        self.enqueue_first = enqueue_first
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
        batch_loss = self.loss(embeddings, labels, references, sample_weight=sample_weight)
        if training and self.enqueue_first:
            self.memory.enqueue(embeddings, labels)
        memory_loss = tf.cond(
            self._is_started(batch_size=tf.shape(embeddings, out_type=tf.int64)[0]),
            lambda: self.loss(embeddings, labels, self.memory.references(), sample_weight=sample_weight),
            lambda: tf.zeros_like(batch_loss),
        )
        if training:
            if not self.enqueue_first:
                self.memory.enqueue(embeddings, labels)
            self.step.assign_add(1)
        return batch_loss + self.weight * memory_loss

    def _is_started(self, batch_size: tf.Tensor) -> tf.Tensor:
        """Return whether the second term counts, a bool scalar."""
        first_step = tf.constant(self.start_step, tf.int64)
        if self.fill_before_start:
            first_step += -(-self.memory.memory_size // batch_size)  # rounded up
        return tf.convert_to_tensor(self.step) >= first_step

    def get_config(self) -> dict:
        """Return the constructor's arguments."""
        return {
            **super().get_config(),
            "memory_size": self.memory.memory_size,
            "embedding_dim": self.memory.embedding_dim,
            "start_step": self.start_step,
            "weight": self.weight,
            "fill_before_start": self.fill_before_start,
            "enqueue_first": self.enqueue_first,
            "num_classes": self.memory.num_classes,
        }
