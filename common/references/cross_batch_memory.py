"""The last embeddings of the batches before, as a reference set."""

from __future__ import annotations

from typing import Any

import tensorflow as tf
from tensorflow import keras

from common.errors import check_positive
from common.ops.pair_masks import integer_labels
from common.ops.precision import in_full_precision
from common.references.reference_set import References


@keras.utils.register_keras_serializable(package="deep_metric_learning")
class CrossBatchMemory(keras.layers.Layer):
    """A ring buffer of embeddings and labels in non-trainable weights, saved with the model.

    Reference: Wang, Zhang, Huang, Scott: Cross-Batch Memory for Embedding Learning, CVPR 2020.

    Args:
        memory_size: number of embeddings that it holds, `[memory_size, embedding_dim]`.
        embedding_dim: number of components of an embedding.

    Examples:
        >>> memory = CrossBatchMemory(memory_size=800, embedding_dim=128)
        >>> memory.enqueue(embeddings, labels)
        >>> loss = ContrastiveLoss()(embeddings, labels, memory.references())
    """

    def __init__(self, memory_size: int, embedding_dim: int, dtype: str | None = None, **kwargs: Any) -> None:
        super().__init__(**in_full_precision({"dtype": dtype, **kwargs}))
        self.memory_size = check_positive("memory_size", memory_size)
        self.embedding_dim = check_positive("embedding_dim", embedding_dim)
        self.embeddings = self._state("embeddings", (memory_size, embedding_dim), self.dtype)
        self.labels = self._state("labels", (memory_size,), "int64")
        self.num_enqueued = self._state("num_enqueued", (), "int64")  # since the beginning, beyond the size too
        self.built = True  # the constructor makes all of the state

    def enqueue(self, embeddings: tf.Tensor, labels: tf.Tensor) -> None:
        """Replace the oldest entries by a batch; of a larger batch, keep the end.

        Args:
            embeddings: `[batch, dim]`; no gradient passes.
            labels: integers, `[batch]`.
        """
        count = tf.convert_to_tensor(self.num_enqueued)
        batch_size = tf.shape(embeddings, out_type=tf.int64)[0]
        first = tf.maximum(batch_size - self.memory_size, 0)
        slots = (count + tf.range(first, batch_size)) % self.memory_size
        entries = tf.cast(tf.stop_gradient(embeddings), self.dtype)[first:]
        # A scatter into the variable itself would spare this copy and make one of every read instead (TensorFlow's copy
        # on read): measured with 44,800 entries, it gains nothing from the moment on at which the memory is used.
        self.embeddings.assign(tf.tensor_scatter_nd_update(self.embeddings, slots[:, None], entries))
        self.labels.assign(tf.tensor_scatter_nd_update(self.labels, slots[:, None], integer_labels(labels)[first:]))
        self.num_enqueued.assign(count + batch_size)

    def references(self) -> References:
        """Return the entries `[memory_size, dim]`; slots never filled are not valid."""
        filled = tf.range(self.memory_size, dtype=tf.int64) < tf.convert_to_tensor(self.num_enqueued)
        return References(tf.convert_to_tensor(self.embeddings), tf.convert_to_tensor(self.labels), filled)

    def get_config(self) -> dict:
        """Return the constructor's arguments."""
        return {**super().get_config(), "memory_size": self.memory_size, "embedding_dim": self.embedding_dim}

    def _state(self, name: str, shape: tuple[int, ...], dtype: str) -> tf.Variable:
        return self.add_weight(name=name, shape=shape, dtype=dtype, initializer="zeros", trainable=False)
