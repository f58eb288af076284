"""The proxy anchor loss."""

from __future__ import annotations

import tensorflow as tf
from tensorflow import keras

from common.losses.proxy_loss import ProxyLoss
from common.ops.distances import pairwise_inner_products
from common.ops.reductions import log1p_sum_exp, masked_mean
from common.parameters import Positive, ProxyLossArguments, Unpack, checked
from common.references.reference_set import References


@keras.utils.register_keras_serializable(package="deep_metric_learning")
class ProxyAnchorLoss(ProxyLoss):
    """Proxy anchor loss: each proxy is an anchor over the batch.

    `mean_{p with positives} log(1 + Σ_{x of its class} e^{α(δ - s)}) + mean_{p with negatives} log(1 + Σ_{x of others}
    e^{α(δ + s)})`, s the inner product of the proxy p and the sample x.

    Reference: thesis 3.3.2.1 and 5.3.4.1 ("PAnchor"); Kim, Kim, Cho, Kwak: Proxy Anchor Loss, CVPR 2020, which
    divides the second sum by the number of all proxies: the same unless the whole batch is of one class.

    Args:
        num_classes: number of classes, their labels being 0..num_classes-1.
        embedding_dim: number of components of an embedding.
        proxies_per_class: number of proxies of each class.
        margin: δ.
        scale: α, greater than 0.
        initializer: of the proxies; see `ProxyBank`.
        **kwargs: those of `ProxyLoss` and `MetricLoss`: `proxy_regularizer`, `normalization`, `name`, `dtype`.

    Examples:
        >>> ProxyAnchorLoss(num_classes=75, embedding_dim=128)(tf.random.normal([32, 128]), tf.range(32))
    """

    @checked
    def __init__(
        self,
        num_classes: int,
        embedding_dim: int,
        *,
        proxies_per_class: int = 1,
        margin: float = 0.1,
        scale: Positive = 32.0,
        initializer: str | dict | keras.initializers.Initializer = "he_normal",
        **kwargs: Unpack[ProxyLossArguments],
    ) -> None:
        super().__init__(num_classes, embedding_dim, proxies_per_class, initializer, **kwargs)
        self.margin = margin
        self.scale = scale

    def call(self, embeddings: tf.Tensor, labels: tf.Tensor, references: References | None = None) -> tf.Tensor:
        """Return the loss of a batch; see `MetricLoss`."""
        pairs = self.compare_with_proxies(embeddings, labels, references, anchors="references")
        similarities = pairwise_inner_products(pairs.anchors, pairs.references)  # [proxies, batch]
        pull = log1p_sum_exp(self.scale * (self.margin - similarities), pairs.positive)  # [proxies]
        push = log1p_sum_exp(self.scale * (self.margin + similarities), pairs.negative)
        has_positives, has_negatives = (tf.reduce_any(mask, axis=1) for mask in (pairs.positive, pairs.negative))
        return masked_mean(pull, has_positives) + masked_mean(push, has_negatives)

    def get_config(self) -> dict:
        """Return the constructor's arguments."""
        return {
            **super().get_config(),
            "proxies_per_class": self.proxy_bank.proxies_per_class,
            "margin": self.margin,
            "scale": self.scale,
        }
