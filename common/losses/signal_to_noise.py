"""The signal-to-noise-ratio loss: contrastive or triplet terms on noise-to-signal ratios."""

from __future__ import annotations

from typing import Literal

import numpy as np
import tensorflow as tf
from tensorflow import keras

from common.losses.contrastive import contrastive
from common.losses.metric_loss import MetricLoss
from common.losses.triplet import triplet
from common.ops.distances import ROUNDING_UNITS, pairwise_squared_distances
from common.ops.reductions import mean_or_zero
from common.parameters import LossArguments, NotNegative, Unpack, checked
from common.references.comparison import compare
from common.references.reference_set import References


def noise_to_signal_ratios(signals: tf.Tensor, others: tf.Tensor) -> tf.Tensor:
    """Return `var(x_j - x_i) / var(x_i)` over components, of signals i and others j.

    Args:
        signals: `[a, dim]`.
        others: `[b, dim]`.

    Returns:
        `[a, b]`. Exact gradient. A signal without variance (all components equal up to rounding) has ratio 0.
    """
    signals_centered, others_centered = (x - tf.reduce_mean(x, axis=-1, keepdims=True) for x in (signals, others))
    power = tf.reduce_sum(signals_centered**2, axis=-1, keepdims=True)  # [a, 1]
    rounding = ROUNDING_UNITS * np.finfo(signals.dtype.as_numpy_dtype).eps * tf.reduce_sum(signals**2, -1, True)
    varies = tf.logical_not(power <= rounding)  # also where it is NaN
    ratios = pairwise_squared_distances(signals_centered, others_centered) / tf.where(varies, power, 1.0)
    return tf.where(varies, ratios, tf.zeros_like(ratios))


@keras.utils.register_keras_serializable(package="deep_metric_learning")
class SignalToNoiseLoss(MetricLoss):
    """SNR loss on noise-to-signal ratios of embeddings and references.

    The ratio of an embedding i and a reference j is `d_ij = var(x_j - x_i) / var(x_i)`. Contrastive:
    `mean_{>0} [d_ap - m⁺]₊ + mean_{>0} [m⁻ - d_an]₊`; triplet: `mean_{>0} [d_ap - d_an + m]₊`; and
    `λ mean_i |Σ_k x_ik|`, which holds the mean of the components at zero.

    Reference: Yuan, Deng, Tang, Tang, Chen: Signal-to-Noise Ratio: A Robust Distance Metric for Deep Metric Learning,
    CVPR 2019; Milbich's dissertation, chapter 2, has the triplet terms (m = .2, λ = .005, or 0 with distance-weighted
    triplets).

    Args:
        terms: `"contrastive"` or `"triplet"`.
        positive_margin: m⁺, at least 0; contrastive.
        negative_margin: m⁻, at least 0; contrastive. Independent unit vectors are at 2.
        margin: m, at least 0; triplet.
        mean_penalty: λ, at least 0.
        **kwargs: `normalization`, `name`, `dtype`; see `MetricLoss`.

    Examples:
        >>> SignalToNoiseLoss(negative_margin=1.0)(tf.random.normal([32, 128]), tf.repeat(tf.range(8), 4))
    """

    @checked
    def __init__(
        self,
        terms: Literal["contrastive", "triplet"] = "contrastive",
        positive_margin: NotNegative = 0.0,
        negative_margin: NotNegative = 1.0,
        margin: NotNegative = 0.2,
        mean_penalty: NotNegative = 0.005,
        **kwargs: Unpack[LossArguments],
    ) -> None:
        super().__init__(**kwargs)
        self.terms = terms
        self.positive_margin = positive_margin
        self.negative_margin = negative_margin
        self.margin = margin
        self.mean_penalty = mean_penalty

    def call(self, embeddings: tf.Tensor, labels: tf.Tensor, references: References | None = None) -> tf.Tensor:
        """Return the loss of a batch; see `MetricLoss`."""
        pairs = compare(embeddings, labels, references, normalization=self.normalization)
        ratios = noise_to_signal_ratios(pairs.anchors, pairs.references)
        masks = pairs.positive, pairs.negative
        if self.terms == "contrastive":
            loss = contrastive(ratios, *masks, self.positive_margin, self.negative_margin)
        else:
            loss = triplet(ratios, *masks, self.margin)
        return loss + self.mean_penalty * mean_or_zero(tf.abs(tf.reduce_sum(pairs.anchors, axis=-1)))

    def get_config(self) -> dict:
        """Return the constructor's arguments."""
        return {
            **super().get_config(),
            "terms": self.terms,
            "positive_margin": self.positive_margin,
            "negative_margin": self.negative_margin,
            "margin": self.margin,
            "mean_penalty": self.mean_penalty,
        }
