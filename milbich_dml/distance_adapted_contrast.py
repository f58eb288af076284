"""DaNCE: noise-contrastive estimation between two views, with negatives weighted by their distance."""

from __future__ import annotations

from typing import Any

import numpy as np
import tensorflow as tf
from tensorflow import keras

from common.errors import check_choice, invalid
from common.losses.metric_loss import MetricLoss
from common.miners.distance_weighted import log_inverse_density
from common.ops.distances import pairwise_distances, pairwise_inner_products
from common.ops.normalization import normalize
from common.ops.reductions import masked_mean
from common.parameters import Positive, checked
from common.references.comparison import compare
from common.references.cross_batch_memory import CrossBatchMemory
from common.references.reference_set import References

WEIGHTS = ("anchor", "batch", "print", "none")
SHORTEST, LONGEST = 0.5, 1.4  # distances beyond which a weight is that of .5, and 0
_ABSENT = -1e30  # the logarithm of no negatives, with gradient zero


@keras.utils.register_keras_serializable(package="deep_metric_learning")
class DistanceAdaptedContrastLoss(MetricLoss):
    """Contrast with negatives from a queue, weighted by distance (DiVA).

    `mean [-s_ij + log(exp(s_ij) + Σ_k exp(w_ik s_ik))]`, `s = φᵀφ' / T`, negatives k from the queue. The mean is over
    the positive pairs of the batch with the references: with two views from `ViewLoss`, each image with its other view.
    After the loss, in calls with `training=True`, the references (or the batch) replace the oldest entries of the
    queue. While the queue is empty, the loss is 0 with zero gradient.

    Weights, without gradient: `v_ik = 1 / q(max(d_ik, .5))` up to a distance of 1.4, else 0; see
    `common.miners.log_inverse_density`. A weight of 0 does not remove a negative: it leaves the term exp(0).

    Reference: Milbich's dissertation, equations 4.7 to 4.10, whose λ has no value and whose q is not normalised. The
    default is the corrected public code of DiVA. Its key encoder is a running average of the network and eq. 4.9 is a
    bank of averaged representations by image; here keys are of the current network, and the bank is left out.

    Gradient: exact in embeddings and references, none in the queue and in the weights.

    Args:
        queue_size: number of negatives.
        dim: number of components of an embedding.
        temperature: T, greater than 0.
        weights: `"anchor"`: v over its sum over the negatives of the anchor; `"batch"`: over its sum over the anchors
            of the negative (the code that its authors withdrew); `"print"`: `min(clip, 1 / q(d_ik))`, not normalised;
            `"none"`: 1, which is noise-contrastive estimation.
        positive_in_denominator: whether `exp(s_ij)` is in the logarithm; equation 4.10 is printed without it.
        clip: the largest weight of `"print"`, greater than 0; None for the others.
        **kwargs: `normalization`, `name`, `dtype`; see `MetricLoss`.

    Call arguments: those of `MetricLoss`, and `training`.

    Raises:
        InvalidInput: an argument is out of its range.

    Examples:
        >>> loss = ViewLoss(DistanceAdaptedContrastLoss(queue_size=30 * 16, dim=128), first_alone=False)
        >>> loss(tf.random.normal([32, 128]), tf.tile(tf.range(16), [2]), training=True)
    """

    @checked
    def __init__(
        self,
        queue_size: int,
        dim: int,
        temperature: Positive = 0.01,
        weights: str = "anchor",
        positive_in_denominator: bool = True,
        clip: Positive | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.queue = CrossBatchMemory(queue_size, dim, dtype=self.dtype)
        self.temperature = temperature
        self.weighting = check_choice("weights", weights, WEIGHTS)
        self.positive_in_denominator = positive_in_denominator
        if (weights == "print") != (clip is not None):
            raise invalid("clip", received=clip, expected="a number with weights='print', and None with others")
        self.clip = clip

    def call(
        self,
        embeddings: tf.Tensor,
        labels: tf.Tensor,
        references: References | None = None,
        training: bool | None = None,
    ) -> tf.Tensor:
        """Return the loss of a batch; see the class."""
        pairs = compare(embeddings, labels, references, normalization=self.normalization)
        attraction = pairwise_inner_products(pairs.anchors, pairs.references) / self.temperature
        negatives = self._log_sum_over_queue(pairs.anchors)[:, None]  # [anchors, 1]
        beyond = negatives - attraction  # log Σ_k exp(w_ik s_ik) - s_ij
        if self.positive_in_denominator:
            terms = tf.math.softplus(beyond)
        else:
            terms = tf.where(negatives <= _ABSENT, 0.0 * attraction, beyond)
        if training:
            keys = References(embeddings, labels) if references is None else references
            self._enqueue(keys)
        return masked_mean(terms, pairs.positive)

    def _log_sum_over_queue(self, anchors: tf.Tensor) -> tf.Tensor:
        """Return `log Σ_k exp(w_ik s_ik)` over the queue, `[anchors]`; `_ABSENT` if it is empty."""
        queue = self.queue.references()
        filled = tf.convert_to_tensor(queue.valid)
        keys = normalize(tf.cast(queue.embeddings, anchors.dtype), self.normalization)
        logits = self.weights_of(anchors, keys, filled) * pairwise_inner_products(anchors, keys)
        logits = tf.where(filled[None, :], logits / self.temperature, tf.constant(_ABSENT, logits.dtype))
        return tf.reduce_logsumexp(logits, axis=1)

    def weights_of(self, anchors: tf.Tensor, keys: tf.Tensor, valid: tf.Tensor) -> tf.Tensor:
        """Return the weights w `[anchors, keys]`, without gradient.

        Args:
            anchors: `[anchors, dim]`, normalised.
            keys: `[keys, dim]`, normalised.
            valid: bool, `[keys]`; the weights of others mean nothing.
        """
        anchors, keys = tf.stop_gradient(anchors), tf.stop_gradient(keys)
        distances = pairwise_distances(*(normalize(points, "unit") for points in (anchors, keys)))
        if self.weighting == "none":
            return tf.ones_like(distances)
        if self.clip is not None:
            logs = log_inverse_density(distances, self.queue.embedding_dim, cutoff=1e-6)
            return tf.exp(tf.minimum(logs, np.log(self.clip)))
        logs = log_inverse_density(distances, self.queue.embedding_dim, cutoff=SHORTEST)
        near = (distances <= LONGEST) & valid[None, :]
        logs = tf.where(near, logs, tf.constant(_ABSENT, logs.dtype))
        shares = tf.nn.softmax(logs, axis=1 if self.weighting == "anchor" else 0)
        return tf.where(near, shares, tf.zeros_like(shares))

    def _enqueue(self, keys: References) -> None:
        """Append the valid keys to the queue, in their order."""
        embeddings, labels = tf.convert_to_tensor(keys.embeddings), tf.convert_to_tensor(keys.labels)
        if keys.valid is not None:
            embeddings, labels = (tf.boolean_mask(part, keys.valid) for part in (embeddings, labels))
        self.queue.enqueue(embeddings, labels)

    def get_config(self) -> dict:
        """Return the constructor's arguments."""
        return {
            **super().get_config(),
            "queue_size": self.queue.memory_size,
            "dim": self.queue.embedding_dim,
            "temperature": self.temperature,
            "weights": self.weighting,
            "positive_in_denominator": self.positive_in_denominator,
            "clip": self.clip,
        }
