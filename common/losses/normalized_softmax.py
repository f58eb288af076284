"""The normalised softmax: a classifier of unit embeddings by unit class vectors."""

from __future__ import annotations

import tensorflow as tf
from tensorflow import keras

from common.losses.proxy_loss import ProxyLoss
from common.losses.proxy_nca import softmax_loss
from common.parameters import Positive, ProxyLossArguments, Unpack, checked
from common.references.reference_set import References


@keras.utils.register_keras_serializable(package="deep_metric_learning")
class NormalizedSoftmaxLoss(ProxyLoss):
    """Normalised softmax: the cross-entropy of `softmax_c(cos(x, w_c) / T)`, the mean over the batch.

    With one class vector w per class this is the function that ProxyNCA++ has with one proxy per class; the two come
    with different temperatures and learn their class vectors at different paces.

    Reference: Zhai, Wu: Classification Is a Strong Baseline for Deep Metric Learning, BMVC 2019 (T = .05); Milbich's
    dissertation eq. 2.14.

    Args:
        num_classes: number of classes, their labels being 0..num_classes-1.
        embedding_dim: number of components of an embedding.
        temperature: T, greater than 0.
        initializer: of the class vectors; see `ProxyBank`.
        **kwargs: those of `ProxyLoss` and `MetricLoss`: `proxy_regularizer`, `normalization`, `name`, `dtype`.

    Examples:
        >>> NormalizedSoftmaxLoss(num_classes=75, embedding_dim=128)(tf.random.normal([32, 128]), tf.range(32))
    """

    @checked
    def __init__(
        self,
        num_classes: int,
        embedding_dim: int,
        *,
        temperature: Positive = 0.05,
        initializer: str | dict | keras.initializers.Initializer = "he_normal",
        **kwargs: Unpack[ProxyLossArguments],
    ) -> None:
        super().__init__(num_classes, embedding_dim, 1, initializer, **kwargs)
        self.temperature = temperature

    def call(
        self,
        embeddings: tf.Tensor,
        labels: tf.Tensor,
        references: References | None = None,
        sample_weight: tf.Tensor | None = None,
    ) -> tf.Tensor:
        """Return the loss of a batch; see `MetricLoss`."""
        pairs = self.compare_with_proxies(embeddings, labels, references, sample_weight=sample_weight)
        return softmax_loss(pairs, self.temperature)

    def get_config(self) -> dict:
        """Return the constructor's arguments."""
        return {
            **super().get_config(),
            "temperature": self.temperature,
        }
