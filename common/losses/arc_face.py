"""ArcFace and CosFace: softmax over class vectors with a margin."""

from __future__ import annotations

import math
from typing import Annotated

import numpy as np
import tensorflow as tf
from tensorflow import keras

from common.losses.proxy_loss import ProxyLoss
from common.losses.proxy_nca import negative_log_probability
from common.ops.distances import ROUNDING_UNITS, pairwise_inner_products
from common.parameters import Count, NumberRange, Positive, ProxyLossArguments, Unpack, checked
from common.references.reference_set import References


def cosines_of_wider_angles(cosines: tf.Tensor, margin: float) -> tf.Tensor:
    """Return `cos(θ + m)` from `cos θ`, and beyond π a decreasing continuation.

    Args:
        cosines: cos θ in -1..1, any shape.
        margin: m in radians.

    Returns:
        The shape of `cosines`; `cos θ - m sin m` if θ + m > π. Exact gradient `sin(θ + m) / sin θ`; cos m at
        sin θ = 0, where it is infinite.
    """
    squared_sines = 1.0 - tf.square(cosines)
    apart = squared_sines > ROUNDING_UNITS * np.finfo(cosines.dtype.as_numpy_dtype).eps
    sines = tf.sqrt(tf.where(apart, squared_sines, tf.ones_like(cosines)))
    sines = tf.where(apart, sines, tf.zeros_like(cosines))
    wider = cosines * math.cos(margin) - sines * math.sin(margin)
    return tf.where(cosines >= -math.cos(margin), wider, cosines - margin * math.sin(margin))


def nearest_centers(
    cosines: tf.Tensor, positive: tf.Tensor, negative: tf.Tensor, num_centers: int
) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
    """Keep the nearest center of each class.

    Args:
        cosines: `[anchors, classes * num_centers]`, those of a class side by side.
        positive: bool, the same shape.
        negative: bool, the same shape.
        num_centers: of each class.

    Returns:
        The three, `[anchors, classes]`.
    """
    if num_centers == 1:
        return cosines, positive, negative
    shape = [-1, tf.shape(cosines)[1] // num_centers, num_centers]
    nearest = tf.reduce_max(tf.reshape(cosines, shape), axis=2)
    return nearest, tf.reshape(positive, shape)[:, :, 0], tf.reshape(negative, shape)[:, :, 0]


class MarginSoftmaxLoss(ProxyLoss):
    """Cross-entropy over cosines of class vectors, with a margin on the own class; abstract.

    Args:
        num_classes: number of classes, their labels being 0..num_classes-1.
        embedding_dim: number of components of an embedding.
        margin: m, of the own class.
        scale: s, greater than 0.
        initializer: of the class vectors; see `ProxyBank`.
        centers_per_class: vectors of a class; the nearest one counts. Given `references` are one vector each.
        **kwargs: those of `ProxyLoss` and `MetricLoss`: `proxy_regularizer`, `normalization`, `name`, `dtype`.
    """

    @checked
    def __init__(
        self,
        num_classes: int,
        embedding_dim: int,
        margin: float,
        scale: Positive,
        initializer: str | dict | keras.initializers.Initializer = "he_normal",
        centers_per_class: int = 1,
        **kwargs: Unpack[ProxyLossArguments],
    ) -> None:
        super().__init__(num_classes, embedding_dim, centers_per_class, initializer, **kwargs)
        self.margin = margin
        self.scale = scale

    def call(
        self,
        embeddings: tf.Tensor,
        labels: tf.Tensor,
        references: References | None = None,
        sample_weight: tf.Tensor | None = None,
    ) -> tf.Tensor:
        """Return the loss of a batch; see `MetricLoss`."""
        pairs = self.compare_with_proxies(embeddings, labels, references, sample_weight=sample_weight)
        cosines = tf.clip_by_value(pairwise_inner_products(pairs.anchors, pairs.references), -1.0, 1.0)
        num_centers = self.proxy_bank.proxies_per_class if references is None else 1
        cosines, positive, negative = nearest_centers(cosines, pairs.positive, pairs.negative, num_centers)
        cosines = tf.where(positive, self.with_margin(cosines), cosines)
        return negative_log_probability(self.scale * cosines, positive, negative, pairs.anchor_weights)

    def with_margin(self, cosines: tf.Tensor) -> tf.Tensor:
        """Return the cosines of the own class behind the margin."""
        raise NotImplementedError(f"{type(self).__name__} must implement with_margin(cosines).")

    def get_config(self) -> dict:
        """Return the constructor's arguments."""
        own = {"margin": self.margin, "scale": self.scale, "centers_per_class": self.proxy_bank.proxies_per_class}
        return {**super().get_config(), **own}


@keras.utils.register_keras_serializable(package="deep_metric_learning")
class CosFaceLoss(MarginSoftmaxLoss):
    """CosFace: cross-entropy over cosines, with a margin on the own class's cosine.

    `-log(e^{s (cos θ_y - m)} / (e^{s (cos θ_y - m)} + Σ_{c≠y} e^{s cos θ_c}))`, the mean over the batch. With several
    positive `references` each has the margin, and their shares add up.

    Reference: Wang, Wang, Zhou, Ji, Gong, Zhou, Li, Liu: CosFace, CVPR 2018, equation 4 (m = .35, s = 64).

    Args:
        num_classes: number of classes, their labels being 0..num_classes-1.
        embedding_dim: number of components of an embedding.
        margin: m, in [0, 2].
        scale: s, greater than 0.
        initializer: of the class vectors; see `ProxyBank`.
        **kwargs: those of `MarginSoftmaxLoss`, `ProxyLoss` and `MetricLoss`. Inner products beyond -1..1, which unit
            vectors do not have, count as these.

    Raises:
        InvalidInput: the margin is out of its range.

    Examples:
        >>> CosFaceLoss(num_classes=75, embedding_dim=128)(tf.random.normal([32, 128]), tf.range(32))
    """

    @checked
    def __init__(
        self,
        num_classes: int,
        embedding_dim: int,
        *,
        margin: Annotated[float, NumberRange(0, 2, low_included=True, high_included=True)] = 0.35,
        scale: Positive = 64.0,
        initializer: str | dict | keras.initializers.Initializer = "he_normal",
        **kwargs: Unpack[ProxyLossArguments],
    ) -> None:
        super().__init__(num_classes, embedding_dim, margin, scale, initializer, **kwargs)

    def with_margin(self, cosines: tf.Tensor) -> tf.Tensor:
        """Return cos θ - m."""
        return cosines - self.margin


@keras.utils.register_keras_serializable(package="deep_metric_learning")
class ArcFaceLoss(MarginSoftmaxLoss):
    """ArcFace: cross-entropy over angles, with a margin on the own class's angle.

    `-log(e^{s cos(θ_y + m)} / (e^{s cos(θ_y + m)} + Σ_{c≠y} e^{s cos θ_c}))`, the mean over the batch. θ_c is the angle
    between an embedding and the vector of the class c. With several positive `references` each has the margin, and
    their shares add up.

    Reference: Deng, Guo, Xue, Zafeiriou: ArcFace, CVPR 2019 (m = .5, s = 64), with its authors' continuation beyond π;
    Milbich's dissertation eq. 2.15 (m = .5, s = 16). Several centers: Deng, Guo, Liu, Gong, Zafeiriou: Sub-center
    ArcFace, ECCV 2020, where θ_c is the angle to the nearest center of the class.

    Args:
        num_classes: number of classes, their labels being 0..num_classes-1.
        embedding_dim: number of components of an embedding.
        margin: m in radians, in [0, π/2].
        scale: s, greater than 0.
        initializer: of the class vectors; see `ProxyBank`.
        centers_per_class: vectors of each class; the nearest one counts.
        **kwargs: those of `MarginSoftmaxLoss`, `ProxyLoss` and `MetricLoss`. Inner products beyond -1..1, which unit
            vectors do not have, count as these.

    Raises:
        InvalidInput: the margin is out of its range.

    Examples:
        >>> ArcFaceLoss(num_classes=75, embedding_dim=128)(tf.random.normal([32, 128]), tf.range(32))
    """

    @checked
    def __init__(
        self,
        num_classes: int,
        embedding_dim: int,
        *,
        margin: Annotated[float, NumberRange(0, math.pi / 2, low_included=True, high_included=True)] = 0.5,
        scale: Positive = 16.0,
        initializer: str | dict | keras.initializers.Initializer = "he_normal",
        centers_per_class: Count = 1,
        **kwargs: Unpack[ProxyLossArguments],
    ) -> None:
        super().__init__(num_classes, embedding_dim, margin, scale, initializer, centers_per_class, **kwargs)

    def with_margin(self, cosines: tf.Tensor) -> tf.Tensor:
        """Return cos(θ + m), and beyond π its continuation."""
        return cosines_of_wider_angles(cosines, self.margin)
