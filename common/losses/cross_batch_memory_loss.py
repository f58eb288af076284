"""XBM: a loss over the batch plus the same loss over previous batches' embeddings."""

from __future__ import annotations

import functools
from typing import Literal

import tensorflow as tf
from tensorflow import keras

from common.errors import invalid
from common.losses.composed_loss import LossAround, loss_of_kind
from common.losses.metric_loss import MetricLoss
from common.losses.mined_loss import MinedLoss
from common.losses.proxy_loss import ProxyLoss
from common.ops.pair_masks import batch_labels, pair_masks
from common.parameters import CountOrZero, LayerArguments, NotNegative, Unpack, checked
from common.references.cross_batch_memory import CrossBatchMemory
from common.references.reference_set import Pairs, References

SUM, UNION = "sum", "union"


@keras.utils.register_keras_serializable(package="deep_metric_learning")
class CrossBatchMemoryLoss(LossAround):
    """XBM around any metric loss: `loss(batch) + w · loss(batch, memory)`.

    The memory holds the embeddings of the last batches, as they came and without gradient; the loss normalises them.
    Memory and step counter advance in calls with `training=True` only. For the first `start_step` steps, while the
    embeddings still drift fast, the loss is that of the batch alone. Then `terms` says what it is:

    - "sum": the formula above.
    - "union": `loss(batch, batch and memory)`, one comparison and so one mean, without pairs of a sample and itself. It
      is that of pytorch-metric-learning's `CrossBatchMemory`.
    - "memory": `loss(batch, memory)` alone.

    Reference: thesis 3.3.2.1 ("XBM": starts after 1,000 steps); Wang, Zhang, Huang, Scott: Cross-Batch Memory for
    Embedding Learning, CVPR 2020. The published code of the thesis sets both switches below.

    Args:
        loss: the `MetricLoss` of both terms. It normalises; this one only tells how.
        memory_size: number of embeddings in the memory (batches of memory times batch size).
        embedding_dim: number of components of an embedding.
        start_step: number of training steps before the second term.
        weight: w, of the second term of "sum", at least 0.
        fill_before_start: whether the steps that fill the memory, `ceil(memory_size / batch)`, come on top of
            `start_step`.
        enqueue_first: whether the batch enters the memory before it is compared with it, so that each sample
            meets itself as a positive. By default it enters afterwards.
        num_classes: of images with several labels each, whose labels are bools `[batch, num_classes]`; None: labels
            are class ids.
        terms: `"sum"`, `"union"` or `"memory"`.
        **kwargs: `name`, `dtype`; see `MetricLoss`.

    Call arguments: those of `MetricLoss`, and `training`. With `references` the first term is over them; a union is of
    them and the memory.

    Raises:
        InvalidInput: an argument is out of its range; a weight with other terms than "sum"; a union with proxies, drawn
            pairs, or a memory that holds the batch.

    Examples:
        >>> loss = CrossBatchMemoryLoss(CosineContrastiveLoss(), memory_size=25 * 32, embedding_dim=128)
        >>> loss(tf.random.normal([32, 128]), tf.repeat(tf.range(8), 4), training=True)
    """

    @checked
    def __init__(
        self,
        loss: MetricLoss,
        memory_size: int,
        embedding_dim: int,
        *,
        start_step: CountOrZero = 1000,
        weight: NotNegative = 1.0,
        fill_before_start: bool = False,
        enqueue_first: bool = False,
        num_classes: int | None = None,
        terms: Literal["sum", "union", "memory"] = "sum",
        **kwargs: Unpack[LayerArguments],
    ) -> None:
        super().__init__(loss, **kwargs)
        self.terms = terms
        if terms != SUM and weight != 1.0:
            raise invalid("weight", received=weight, expected=f"1 with terms={terms!r}, which have none")
        if terms == UNION and enqueue_first:
            raise invalid("enqueue_first", received=True, expected=f"False with terms={UNION!r}, which has the batch")
        for kind in (MinedLoss, ProxyLoss) if terms == UNION else ():
            if loss_of_kind(loss, kind) is not None:
                expected, fix = f"one of all pairs with terms={UNION!r}", "It would not see which to leave out."
                raise invalid("loss", received=kind.__name__, expected=expected, fix=fix)
        self.memory = CrossBatchMemory(memory_size, embedding_dim, num_classes=num_classes, dtype=self.dtype)
        self.start_step = start_step
        self.weight = weight
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
        if training and self.enqueue_first:
            self.memory.enqueue(embeddings, labels)
        is_started = self._is_started(batch_size=tf.shape(embeddings, out_type=tf.int64)[0])

        def over(others: References | None) -> tf.Tensor:
            # Each term's gradient is summed alone: a sum of two does not depend on its order (`--deterministic`).
            return self.loss(tf.identity(embeddings), labels, others, sample_weight=sample_weight)

        if self.terms == SUM:
            first = over(references)
            second = tf.cond(is_started, lambda: over(self.memory.references()), lambda: tf.zeros_like(first))
            value = first + self.weight * second
        elif self.terms == UNION:
            batch = References(embeddings, labels) if references is None else references
            memory, are_selves = self.memory.references(), references is None
            union = functools.partial(_union, labels, batch, memory, are_selves=are_selves)
            value = tf.cond(is_started, lambda: over(union()), lambda: over(references))
        else:
            value = tf.cond(is_started, lambda: over(self.memory.references()), lambda: over(references))
        if training:
            if not self.enqueue_first:
                self.memory.enqueue(embeddings, labels)
            self.step.assign_add(1)
        return value

    def _is_started(self, batch_size: tf.Tensor) -> tf.Tensor:
        """Return whether the second term counts, a bool scalar."""
        first_step = tf.constant(self.start_step, tf.int64)
        if self.fill_before_start:
            first_step += -(-self.memory.memory_size // batch_size)  # rounded up
        return tf.convert_to_tensor(self.step) >= first_step

    def unfinished_start(self) -> str:
        """Say that no step has used the memory."""
        steps = tf.get_static_value(tf.convert_to_tensor(self.step))
        if steps is None or steps > self.start_step:
            return ""
        return (
            f"{type(self).__name__} {self.name!r} has not used its memory: it has seen {steps} training steps, and "
            f"begins after start_step={self.start_step}. Train longer, or set a smaller start_step. Only calls with "
            "training=True count."
        )

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
            "terms": self.terms,
        }


def _union(labels: tf.Tensor, batch: References, memory: References, *, are_selves: bool) -> References:
    """Join two reference sets, without pairs of a sample and itself.

    Args:
        labels: of the batch that is compared with them.
        batch: the batch itself if `are_selves`, or other references without `pairs`.
    """
    if batch.pairs is not None:
        raise invalid("references", received="pairs", expected=f"none with terms={UNION!r}, which makes its own")
    sets = batch, memory
    dtype = tf.convert_to_tensor(batch.embeddings).dtype
    embeddings = tf.concat([tf.cast(each.embeddings, dtype) for each in sets], axis=0)
    all_labels = tf.concat([batch_labels(each.labels) for each in sets], axis=0)
    everyone = [tf.ones(tf.shape(each.embeddings)[:1], tf.bool) if each.valid is None else each.valid for each in sets]
    positive, negative = pair_masks(labels, all_labels, tf.concat(everyone, axis=0))
    if are_selves:
        no_self = ~tf.eye(tf.shape(positive)[0], tf.shape(positive)[1], dtype=tf.bool)
        positive, negative = positive & no_self, negative & no_self
    return References(embeddings, all_labels, pairs=Pairs(positive, negative))
