"""The last embeddings of the batches before, as a reference set."""

from __future__ import annotations

import tensorflow as tf
from tensorflow import keras

from common.errors import check_positive, invalid
from common.ops.pair_masks import integer_labels, is_label_matrix
from common.ops.precision import in_full_precision
from common.parameters import LayerArguments, Unpack, checked
from common.references.reference_set import References


@keras.utils.register_keras_serializable(package="deep_metric_learning")
class CrossBatchMemory(keras.layers.Layer):
    """A ring buffer of embeddings and labels in non-trainable weights, saved with the model.

    Reference: Wang, Zhang, Huang, Scott: Cross-Batch Memory for Embedding Learning, CVPR 2020.

    Args:
        memory_size: number of embeddings that it holds, `[memory_size, embedding_dim]`.
        embedding_dim: number of components of an embedding.
        num_classes: of images with several labels each, whose labels are bools; None: labels are class ids.

    Examples:
        >>> memory = CrossBatchMemory(memory_size=800, embedding_dim=128)
        >>> memory.enqueue(embeddings, labels)
        >>> loss = ContrastiveLoss()(embeddings, labels, memory.references())
    """

    @checked
    def __init__(
        self,
        memory_size: int,
        embedding_dim: int,
        *,
        num_classes: int | None = None,
        **kwargs: Unpack[LayerArguments],
    ) -> None:
        super().__init__(**in_full_precision(kwargs))
        self.memory_size = check_positive("memory_size", memory_size)
        self.embedding_dim = check_positive("embedding_dim", embedding_dim)
        self.embeddings = self._state("embeddings", (memory_size, embedding_dim), self.dtype)
        self.num_classes = None if num_classes is None else check_positive("num_classes", num_classes)
        if num_classes is None:
            self.labels = self._state("labels", (memory_size,), "int64")
        else:
            self.labels = self._state("labels", (memory_size, num_classes), "bool")
        self.num_enqueued = self._state("num_enqueued", (), "int64")  # since the beginning, beyond the size too
        self.built = True  # the constructor makes all of the state

    def enqueue(self, embeddings: tf.Tensor, labels: tf.Tensor) -> None:
        """Replace the oldest entries by a batch; of a larger batch, keep the end.

        Args:
            embeddings: `[batch, dim]`; no gradient passes.
            labels: integers `[batch]`, or bools `[batch, num_classes]`.

        Raises:
            InvalidInput: labels of the other kind, or of another number of classes.
        """
        labels = self._checked(labels)
        count = tf.convert_to_tensor(self.num_enqueued)
        batch_size = tf.shape(embeddings, out_type=tf.int64)[0]
        first = tf.maximum(batch_size - self.memory_size, 0)
        slots = (count + tf.range(first, batch_size)) % self.memory_size
        entries = tf.cast(tf.stop_gradient(embeddings), self.dtype)[first:]
        # A scatter into the variable itself would spare this copy and make one of every read instead (TensorFlow's copy
        # on read): measured with 44,800 entries, it gains nothing from the moment on at which the memory is used.
        self.embeddings.assign(tf.tensor_scatter_nd_update(self.embeddings, slots[:, None], entries))
        self.labels.assign(tf.tensor_scatter_nd_update(self.labels, slots[:, None], labels[first:]))
        self.num_enqueued.assign(count + batch_size)

    def references(self) -> References:
        """Return the entries `[memory_size, dim]`; slots never filled are not valid."""
        filled = tf.range(self.memory_size, dtype=tf.int64) < tf.convert_to_tensor(self.num_enqueued)
        return References(tf.convert_to_tensor(self.embeddings), tf.convert_to_tensor(self.labels), filled)

    def get_config(self) -> dict:
        """Return the constructor's arguments."""
        own = {"memory_size": self.memory_size, "embedding_dim": self.embedding_dim, "num_classes": self.num_classes}
        return {**super().get_config(), **own}

    def _checked(self, labels: tf.Tensor) -> tf.Tensor:
        if self.num_classes is None:
            return integer_labels(labels)
        labels = tf.convert_to_tensor(labels)
        if not is_label_matrix(labels) or not labels.shape[1:].is_compatible_with([self.num_classes]):
            received = f"{labels.dtype.name} {list(labels.shape)}"
            expected = f"bools [batch, {self.num_classes}], because the memory has num_classes={self.num_classes}"
            raise invalid("labels", received=received, expected=expected)
        return labels

    def _state(self, name: str, shape: tuple[int, ...], dtype: str) -> tf.Variable:
        return self.add_weight(name=name, shape=shape, dtype=dtype, initializer="zeros", trainable=False)
