"""A loss over several prefixes of an embedding."""

from __future__ import annotations

from collections.abc import Sequence

import tensorflow as tf
from tensorflow import keras

from common.errors import invalid
from common.losses.component_loss import components
from common.losses.metric_loss import MetricLoss
from common.losses.weighted_sum import WeightedSumLoss
from common.parameters import LayerArguments, Unpack
from common.references.reference_set import References


@keras.utils.register_keras_serializable(package="deep_metric_learning")
class MatryoshkaLoss(WeightedSumLoss):
    """`Σ_m w_m loss_m(embeddings[:, :m], labels, references[:, :m])` over lengths m.

    A prefix of the trained embedding is an embedding itself: cut it, and normalise it again. Each loss normalises its
    prefix. Losses with proxies own some of each length.

    Reference: Kusupati, Bhatt, Rege, Wallingford, Sinha, Ramanujan, Howard-Snyder, Chen, Kakade, Jain, Farhadi:
    Matryoshka Representation Learning, NeurIPS 2022 (with all weights 1). The sum is theirs over soft-max losses; here
    any metric loss takes their place.

    Gradient: that of the sum. The first components have a part of each loss.

    Args:
        losses: a `MetricLoss` of each length.
        lengths: the prefixes' numbers of components m, at least 1, increasing.
        weights: w, one number for each length; None: 1 each.
        **kwargs: `name`, `dtype`; see `MetricLoss`.

    Input shape: embeddings `[batch, dim]` with `dim >= lengths[-1]`; references `[references, dim]`.

    Raises:
        InvalidInput: an argument is out of its range; in the call, embeddings with too few components.

    Examples:
        >>> loss = MatryoshkaLoss([TripletLoss(), TripletLoss(), TripletLoss()], [32, 64, 128])
        >>> loss(tf.random.normal([32, 128]), tf.repeat(tf.range(8), 4))
    """

    def __init__(
        self,
        losses: Sequence[MetricLoss],
        lengths: Sequence[int],
        weights: Sequence[float] | None = None,
        **kwargs: Unpack[LayerArguments],
    ) -> None:
        super().__init__(losses, weights, **kwargs)
        self.lengths = tuple(lengths)
        increases = all(first < second for first, second in zip((0, *self.lengths), self.lengths))
        if len(self.lengths) != len(losses) or not increases:
            expected = f"{len(losses)} increasing numbers of components, one for each loss"
            raise invalid("lengths", received=self.lengths, expected=expected)

    def call(
        self,
        embeddings: tf.Tensor,
        labels: tf.Tensor,
        references: References | None = None,
        training: bool | None = None,
        sample_weight: tf.Tensor | None = None,
    ) -> tf.Tensor:
        """Return the loss of a batch; see `MetricLoss`."""
        del training  # Keras hands it on to the parts
        terms = []
        for weight, part, length in zip(self.part_weights, self.parts, self.lengths):
            prefixes, others = components(embeddings, references, 0, length)
            terms.append(weight * part(prefixes, labels, others, sample_weight=sample_weight))
        return tf.add_n(terms)

    def get_config(self) -> dict:
        """Return the constructor's arguments."""
        return {**super().get_config(), "lengths": list(self.lengths)}
