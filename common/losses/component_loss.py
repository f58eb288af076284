"""A metric loss on some of the components of an embedding."""

from __future__ import annotations

import tensorflow as tf
from tensorflow import keras

from common.errors import invalid
from common.losses.composed_loss import LossAround
from common.losses.metric_loss import MetricLoss
from common.parameters import Count, CountOrZero, LayerArguments, Unpack, checked
from common.references.reference_set import References


@keras.utils.register_keras_serializable(package="deep_metric_learning")
class ComponentLoss(LossAround):
    """`loss(embeddings[:, first : first + size], labels, references)`, the references cut alike.

    Several features side by side in one embedding, each with a task of its own, are a `WeightedSumLoss` of these. The
    inner loss normalises its slice. `normalization` is `"none"`: no slice says how the whole vector is normalised;
    `common.ops.normalization.normalize_groups` normalises slices apart.

    Reference: Milbich's dissertation, section 3.1.3 and equation 4.11 (linear heads on one pooled feature are one
    projection with the outputs of all).

    Gradient: that of the loss; zero in the other components.

    Args:
        loss: the `MetricLoss` of the slice.
        first: the first component of the slice, at least 0.
        size: number of components of the slice, at least 1.
        **kwargs: `name`, `dtype`; see `MetricLoss`.

    Input shape: embeddings `[batch, dim]` with `dim >= first + size`; references `[references, dim]`.

    Raises:
        InvalidInput: an argument is out of its range; in the call, embeddings with too few components.

    Examples:
        >>> loss = ComponentLoss(MarginLoss(), first=0, size=64)
        >>> loss(tf.random.normal([32, 128]), tf.repeat(tf.range(8), 4))
    """

    @checked
    def __init__(self, loss: MetricLoss, first: CountOrZero, size: Count, **kwargs: Unpack[LayerArguments]) -> None:
        super().__init__(loss, normalization="none", **kwargs)
        self.first = first
        self.size = size

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
        sliced = components(embeddings, references, self.first, self.size)
        return self.loss(sliced[0], labels, sliced[1], sample_weight=sample_weight)

    def get_config(self) -> dict:
        """Return the constructor's arguments."""
        return {
            **super().get_config(),
            "first": self.first,
            "size": self.size,
        }


def components(
    embeddings: tf.Tensor, references: References | None, first: int, size: int
) -> tuple[tf.Tensor, References | None]:
    """Slice embeddings `[n, dim]`, and references alike, to `[n, size]`.

    Args:
        embeddings: of the batch.
        references: what it is compared with, or None.
        first: the first component of the slice.
        size: number of components of the slice.

    Raises:
        InvalidInput: too few components.
    """

    def cut(vectors: tf.Tensor) -> tf.Tensor:
        vectors = tf.convert_to_tensor(vectors)
        if vectors.shape[-1] is not None and vectors.shape[-1] < first + size:
            expected = f"at least {first + size}"
            raise invalid("dimension of embeddings", received=vectors.shape[-1], expected=expected)
        return vectors[:, first : first + size]

    cut_references = references and references._replace(embeddings=cut(references.embeddings))
    return cut(embeddings), cut_references
