"""Proxy NCA, in its log-softmax form with a low temperature (ProxyNCA++)."""

from __future__ import annotations

from typing import Literal

import tensorflow as tf
from tensorflow import keras

from common.losses.proxy_loss import ProxyLoss
from common.ops.distances import pairwise_inner_products
from common.ops.reductions import log_sum_exp, masked_mean
from common.parameters import Positive, ProxyLossArguments, Unpack, checked
from common.references.comparison import Comparison
from common.references.reference_set import References


def negative_log_probability(
    logits: tf.Tensor,
    positive: tf.Tensor,
    negative: tf.Tensor,
    weights: tf.Tensor | None = None,
    denominator: Literal["all", "negatives"] = "all",
) -> tf.Tensor:
    """Return the mean `-w log Σ_positive softmax(logits)` over anchors with a positive reference.

    Args:
        logits: `[anchors, references]`.
        positive: bool, `[anchors, references]`.
        negative: bool, `[anchors, references]`.
        weights: w, `[anchors]`; None: 1.
        denominator: what the softmax adds up, `"all"` proxies or the `"negatives"`. With these, anchors
            also need one.

    Returns:
        A scalar.
    """
    others = negative if denominator == "negatives" else positive | negative
    surprises = log_sum_exp(logits, others) - log_sum_exp(logits, positive)  # [anchors]
    surprises = surprises if weights is None else surprises * weights
    return masked_mean(surprises, tf.reduce_any(positive, axis=1) & tf.reduce_any(others, axis=1))


def softmax_loss(pairs: Comparison, temperature: float, denominator: Literal["all", "negatives"] = "all") -> tf.Tensor:
    """Return `negative_log_probability` of a `Comparison`'s inner products over a temperature, a scalar."""
    logits = pairwise_inner_products(pairs.anchors, pairs.references) / temperature
    return negative_log_probability(logits, pairs.positive, pairs.negative, pairs.anchor_weights, denominator)


@keras.utils.register_keras_serializable(package="deep_metric_learning")
class ProxyNCALoss(ProxyLoss):
    """ProxyNCA++: the cross-entropy of the softmax over all proxies.

    `-log Σ_positive e^{s/T} / Σ_all e^{s/T}`, s the inner product with a proxy, the mean over the batch. A sample
    without a proxy of its class (possible with `references` only) is left out.

    ProxyNCA as printed is `ProxyNCALoss(..., temperature=0.5, denominator="negatives")`:
    `-log e^{-d²(x, p_y)} / Σ_{c≠y} e^{-d²(x, p_c)}`, since `-d² = 2s - 2` for unit vectors. It can be negative.

    Reference: thesis 3.3.2.1 and 5.3.4.1 ("PNCA"); Teh, DeVries, Taylor: ProxyNCA++, ECCV 2020 (the low temperature
    and the fast proxies). As printed: Movshovitz-Attias, Toshev, Leung, Ioffe, Singh: No Fuss Distance Metric Learning
    using Proxies, ICCV 2017, section 3. Vectors in Milbich's dissertation have length 3: T = 1/18.

    Args:
        num_classes: number of classes, their labels being 0..num_classes-1.
        embedding_dim: number of components of an embedding.
        proxies_per_class: number of proxies of each class.
        temperature: T, greater than 0 (chapter 3 prints .1, chapter 5 and the published code have .11).
        initializer: of the proxies; see `ProxyBank`.
        denominator: `"all"` proxies, or the `"negatives"` alone.
        **kwargs: those of `ProxyLoss` and `MetricLoss`: `proxy_regularizer`, `normalization`, `name`, `dtype`.

    Examples:
        >>> ProxyNCALoss(num_classes=75, embedding_dim=128)(tf.random.normal([32, 128]), tf.range(32))
    """

    @checked
    def __init__(
        self,
        num_classes: int,
        embedding_dim: int,
        *,
        proxies_per_class: int = 1,
        temperature: Positive = 0.11,
        initializer: str | dict | keras.initializers.Initializer = "he_normal",
        denominator: Literal["all", "negatives"] = "all",
        **kwargs: Unpack[ProxyLossArguments],
    ) -> None:
        super().__init__(num_classes, embedding_dim, proxies_per_class, initializer, **kwargs)
        self.temperature = temperature
        self.denominator = denominator

    def call(
        self,
        embeddings: tf.Tensor,
        labels: tf.Tensor,
        references: References | None = None,
        sample_weight: tf.Tensor | None = None,
    ) -> tf.Tensor:
        """Return the loss of a batch; see `MetricLoss`."""
        pairs = self.compare_with_proxies(embeddings, labels, references, sample_weight=sample_weight)
        return softmax_loss(pairs, self.temperature, self.denominator)

    def get_config(self) -> dict:
        """Return the constructor's arguments."""
        return {
            **super().get_config(),
            "proxies_per_class": self.proxy_bank.proxies_per_class,
            "temperature": self.temperature,
            "denominator": self.denominator,
        }
