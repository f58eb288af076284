"""A loss and its gradients as one program of XLA."""

from __future__ import annotations

from collections.abc import Callable

import tensorflow as tf

from common.losses.metric_loss import MetricLoss
from common.references.reference_set import References


class CompiledLoss:
    """`loss(embeddings, labels, references)` and its gradients, computed together.

    The gradients are those of embeddings and references. A loss is a scalar, so its gradients can be computed at once
    and scaled on the way back. One program reads and writes the references a few times; single operations pass over
    them a dozen times. Not meant to be differentiated twice.

    Args:
        loss: a `MetricLoss` without weights.
    """

    def __init__(self, loss: MetricLoss) -> None:
        self.loss = loss
        self._program = tf.function(self._loss_and_gradients, jit_compile=True, autograph=False)

    def __call__(
        self,
        embeddings: tf.Tensor,
        labels: tf.Tensor,
        references: References,
        sample_weight: tf.Tensor | None = None,
    ) -> tf.Tensor:
        """Return the scalar loss of `embeddings` `[batch, dim]`, `labels` `[batch]`, `sample_weight` `[batch]`."""

        @tf.custom_gradient
        def compiled(
            embeddings: tf.Tensor, vectors: tf.Tensor
        ) -> tuple[tf.Tensor, Callable[[tf.Tensor], list[tf.Tensor]]]:
            stopped = tf.stop_gradient(embeddings), tf.stop_gradient(vectors)
            value, gradients = self._program(*stopped, labels, references.labels, sample_weight)
            return value, lambda upstream: [tf.cast(upstream, part.dtype) * part for part in gradients]

        return compiled(tf.convert_to_tensor(embeddings), references.embeddings)

    def _loss_and_gradients(
        self,
        embeddings: tf.Tensor,
        vectors: tf.Tensor,
        labels: tf.Tensor,
        vector_labels: tf.Tensor,
        sample_weight: tf.Tensor | None,
    ) -> tuple[tf.Tensor, list[tf.Tensor]]:
        sources = [embeddings, vectors]
        with tf.GradientTape() as tape:
            tape.watch(sources)
            references = References(embeddings=vectors, labels=vector_labels)
            value = self.loss(embeddings, labels, references, sample_weight=sample_weight)
        return value, tape.gradient(value, sources, unconnected_gradients="zero")
