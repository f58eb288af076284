"""The SoftTriple loss: a softmax over classes that have several centres each."""

from __future__ import annotations

import tensorflow as tf
from tensorflow import keras

from common.losses.proxy_loss import ProxyLoss
from common.losses.proxy_nca import negative_log_probability
from common.ops.distances import pairwise_distances, pairwise_inner_products
from common.ops.normalization import normalize
from common.ops.pair_masks import consecutive_labels
from common.ops.reductions import softmax_means_by_group
from common.parameters import Count, NotNegative, Positive, ProxyLossArguments, Unpack, checked
from common.references.comparison import compare
from common.references.reference_set import References


def mean_center_distance(centers: tf.Tensor) -> tf.Tensor:
    """Return half the mean distance between unit centres of a class.

    `Σ_c Σ_{k<l} ‖w_ck - w_cl‖ / (C K (K - 1))`, with `‖w_k - w_l‖ = sqrt(2 - 2 w_kᵀ w_l)`.

    Args:
        centers: `[classes, centers, dim]`.

    Returns:
        A scalar; 0 for one centre per class.
    """
    num_classes, num_centers, _ = centers.shape
    unit_centers = normalize(centers, "unit")
    total = tf.reduce_sum(pairwise_distances(unit_centers, unit_centers)) / 2.0  # each pair appears twice
    return total / max(num_classes * num_centers * (num_centers - 1), 1)


@keras.utils.register_keras_serializable(package="deep_metric_learning")
class SoftTripleLoss(ProxyLoss):
    """SoftTriple loss.

    The similarity to a class is the mean over its centres by their softmax, `S_c = Σ_k softmax_k(s_k / γ) s_k`; the
    loss is `-log softmax_y(λ (S_c - δ 1[c = y]))`, the mean over the batch,
    plus `τ Σ_c Σ_{k<l} ‖w_ck - w_cl‖ / (C K (K - 1))`, which pulls the centres of a class together until those that are
    not needed coincide.

    Reference: thesis 3.3.2.1; Qian, Shang, Sun, Hu, Li, Jin: SoftTriple Loss, ICCV 2019, whose symbols (λ, γ, τ, δ) the
    thesis uses too. γ divides the similarities, as in the paper: at the thesis' values for Cars (19.18) and SOP (47.9)
    all centres of a class weigh nearly the same. The centres have unit length in the regularisation.

    Args:
        num_classes: number of classes, their labels being 0..num_classes-1.
        embedding_dim: number of components of an embedding.
        centers_per_class: K, number of centres of each class.
        scale: λ, greater than 0.
        gamma: γ, greater than 0.
        tau: τ, at least 0. Not applied to `references` of the caller.
        margin: δ.
        initializer: of the centres; see `ProxyBank`.
        **kwargs: those of `ProxyLoss` and `MetricLoss`: `proxy_regularizer`, `normalization`, `name`, `dtype`.

    Examples:
        >>> SoftTripleLoss(num_classes=75, embedding_dim=128)(tf.random.normal([32, 128]), tf.range(32))
    """

    @checked
    def __init__(
        self,
        num_classes: int,
        embedding_dim: int,
        *,
        centers_per_class: Count = 10,
        scale: Positive = 20.0,
        gamma: Positive = 0.1,
        tau: NotNegative = 0.2,
        margin: float = 0.01,
        initializer: str | dict | keras.initializers.Initializer = "he_normal",
        **kwargs: Unpack[ProxyLossArguments],
    ) -> None:
        super().__init__(num_classes, embedding_dim, centers_per_class, initializer, **kwargs)
        self.scale = scale
        self.gamma = gamma
        self.tau = tau
        self.margin = margin

    def call(
        self,
        embeddings: tf.Tensor,
        labels: tf.Tensor,
        references: References | None = None,
        sample_weight: tf.Tensor | None = None,
    ) -> tf.Tensor:
        """Return the loss of a batch; see `MetricLoss`."""
        if references is not None:
            groups = consecutive_labels(references.labels)
            return self._cross_entropy(embeddings, labels, references, groups, tf.size(groups), sample_weight)
        bank = self.proxy_bank
        cross_entropy = self._cross_entropy(
            embeddings, labels, bank.references(), bank.labels, bank.num_classes, sample_weight
        )
        if self.tau == 0.0:
            return cross_entropy
        centers = tf.reshape(bank.proxies, [bank.num_classes, bank.proxies_per_class, bank.embedding_dim])
        return cross_entropy + self.tau * mean_center_distance(centers)

    def _cross_entropy(
        self,
        embeddings: tf.Tensor,
        labels: tf.Tensor,
        references: References | None,
        groups: tf.Tensor,
        num_groups: tf.Tensor,
        sample_weight: tf.Tensor | None,
    ) -> tf.Tensor:
        """Return the cross-entropy over groups of references; `groups` `[references]` gives the classes."""
        pairs = compare(embeddings, labels, references, normalization=self.normalization)
        similarities = pairwise_inner_products(pairs.references, pairs.anchors)  # [references, batch]
        positive, negative = tf.transpose(pairs.positive), tf.transpose(pairs.negative)
        means, occupied = softmax_means_by_group(
            similarities, positive | negative, groups, num_groups, self.gamma
        )  # [groups, batch]
        own = tf.math.unsorted_segment_max(tf.cast(positive, tf.int32), groups, num_groups) > 0
        logits = self.scale * (means - self.margin * tf.cast(own, means.dtype))
        logits, own, others = (tf.transpose(x) for x in (logits, own, occupied & ~own))
        return negative_log_probability(logits, own, others, sample_weight)

    def get_config(self) -> dict:
        """Return the constructor's arguments."""
        return {
            **super().get_config(),
            "centers_per_class": self.proxy_bank.proxies_per_class,
            "scale": self.scale,
            "gamma": self.gamma,
            "tau": self.tau,
            "margin": self.margin,
        }
