"""Shared base of losses with their own proxies, and the comparison with them."""

from __future__ import annotations

import tensorflow as tf
from tensorflow import keras

from common.losses.metric_loss import MetricLoss
from common.parameters import Anchors, LossArguments, Unpack
from common.references.comparison import Comparison, compare
from common.references.proxy_bank import ProxyBank, serialized_initializer
from common.references.reference_set import References


class ProxyLoss(MetricLoss):
    """Compares a batch with proxies that the loss owns and trains; abstract.

    A subclass implements `call` with `compare_with_proxies`.

    Args:
        num_classes: number of classes, their labels being 0..num_classes-1.
        embedding_dim: number of components of an embedding.
        proxies_per_class: number of proxies of each class.
        initializer: of the proxies; see `ProxyBank`.
        proxy_regularizer: of the proxies; see `ProxyBank`. `MetricModel` adds what it gives to the loss.
        proxy_constraint: of the proxies; see `ProxyBank`.
        **kwargs: `normalization`, `name`, `dtype`; see `MetricLoss`.

    Input shape: embeddings `[batch, dim]`, labels `[batch]`.
    Output: a scalar.

    Raises:
        tf.errors.InvalidArgumentError: in the call, a label without a proxy. XLA, which drops checks, makes the
            loss NaN.
    """

    def __init__(
        self,
        num_classes: int,
        embedding_dim: int,
        proxies_per_class: int,
        initializer: str | dict | keras.initializers.Initializer,
        *,
        proxy_regularizer: str | dict | keras.regularizers.Regularizer | None = None,
        proxy_constraint: str | dict | keras.constraints.Constraint | None = None,
        **kwargs: Unpack[LossArguments],
    ) -> None:
        super().__init__(**kwargs)
        self.proxy_bank = ProxyBank(
            *(num_classes, proxies_per_class, embedding_dim),
            initializer=initializer,
            proxy_regularizer=proxy_regularizer,
            proxy_constraint=proxy_constraint,
            dtype=self.dtype,
        )

    @property
    def proxy_variables(self) -> list[tf.Variable]:
        """The proxies."""
        return [self.proxy_bank.proxies]

    def compare_with_proxies(
        self,
        embeddings: tf.Tensor,
        labels: tf.Tensor,
        references: References | None = None,
        *,
        anchors: Anchors = "embeddings",
        sample_weight: tf.Tensor | None = None,
    ) -> Comparison:
        """Pair a batch with `references`, or with the loss's own proxies; see `compare`.

        Args:
            embeddings: `[batch, dim]`.
            labels: `[batch]`, 0..num_classes-1 where the proxies are compared with.
            references: `References`, or None for the proxies.
            anchors: `"embeddings"` or `"references"`.
            sample_weight: of the batch, `[batch]`, or None.

        Returns:
            A `Comparison` `[anchors, references]`.
        """
        if references is None:
            references = self.proxy_bank.references()
        batch = embeddings, labels, references, sample_weight
        return compare(*batch, normalization=self.normalization, anchors=anchors)

    def check_labels(self, labels: tf.Tensor, references: References | None = None) -> tf.Tensor | None:
        """Reject labels without a proxy, unless references are given."""
        return self.proxy_bank.check_labels(labels) if references is None else None

    def get_config(self) -> dict:
        """Return the constructor's arguments except `proxies_per_class`, which some losses fix."""
        return {
            **super().get_config(),
            "num_classes": self.proxy_bank.num_classes,
            "embedding_dim": self.proxy_bank.embedding_dim,
            "initializer": serialized_initializer(self.proxy_bank.initializer),
            **self.proxy_bank.terms_of_proxies(),
        }
