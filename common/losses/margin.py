"""The margin loss: contrastive terms around a learnable boundary."""

from __future__ import annotations

import tensorflow as tf
from tensorflow import keras

from common.losses.metric_loss import MetricLoss
from common.ops.distances import pairwise_distances
from common.ops.pair_masks import integer_labels
from common.parameters import Anchors, Count, Distance, LossArguments, NotNegative, Unpack, checked
from common.references.comparison import compare
from common.references.reference_set import References


def margin_terms(
    distances: tf.Tensor,
    positive: tf.Tensor,
    negative: tf.Tensor,
    boundaries: tf.Tensor,
    margin: float,
    weights: tf.Tensor | None = None,
) -> tf.Tensor:
    """Return the mean of active margin terms over all triplets, without enumerating them.

    `Σ_t ([d_ap - β + m]₊ + [β - d_an + m]₊) / #active` over triplets t. A positive pair is in as many triplets as its
    anchor has negatives, and vice versa; each term counts that many times, in the sum and in the number of active
    terms.

    Args:
        distances: `[anchors, references]`.
        positive: bool, `[anchors, references]`.
        negative: bool, `[anchors, references]`.
        boundaries: β of each anchor, `[anchors]`.
        margin: m.
        weights: factors of the terms of each anchor, `[anchors]`; None: 1.

    Returns:
        A scalar, 0 if no term is active.
    """

    def number_of(mask: tf.Tensor) -> tf.Tensor:
        return tf.reduce_sum(tf.cast(mask, distances.dtype), axis=1, keepdims=True)

    beyond = distances - boundaries[:, None]
    terms = tf.nn.relu(margin + tf.where(positive, beyond, -beyond))  # [anchors, references]
    times = tf.where(positive, number_of(negative), number_of(positive))
    times = tf.where((positive | negative) & (terms > 0.0), times, tf.zeros_like(terms))
    weighted = times * terms if weights is None else times * terms * weights[:, None]
    return tf.reduce_sum(weighted) / tf.maximum(tf.reduce_sum(times), 1.0)


@keras.utils.register_keras_serializable(package="deep_metric_learning")
class MarginLoss(MetricLoss):
    """Margin loss on (unsquared) Euclidean distances, with a learnable boundary β.

    `Σ_t ([d_ap - β_y + m]₊ + [β_y - d_an + m]₊) / #active` over the triplets of an anchor of the class y; #active
    counts the terms that are greater than zero. In the tables "margin, β = 1.2" is the first value of the boundary.

    Reference: Wu, Manmatha, Smola, Krähenbühl: Sampling Matters in Deep Embedding Learning, ICCV 2017 (with one
    triplet per anchor, drawn by `common.miners.distance_weighted`), whose code counts active terms as this does;
    Milbich's dissertation eq. 2.10, whose α is our β, and whose code counts a triplet with two active terms once: up to
    twice the value and gradient.

    Args:
        num_classes: classes with a boundary of their own, labelled 0..num_classes-1; a label beyond them has the first
            boundary. None: one boundary for all classes.
        margin: m, at least 0.
        boundary: first value of every β; unit embeddings are at distances 0..2.
        anchors: `"embeddings"` or `"references"`: whose negatives a positive pair is seen with; see
            `MultiSimilarityLoss`.
        **kwargs: `normalization`, `name`, `dtype`; see `MetricLoss`.

    Examples:
        >>> MarginLoss(num_classes=75, boundary=0.6)(tf.random.normal([32, 128]), tf.repeat(tf.range(8), 4))
    """

    @checked
    def __init__(
        self,
        num_classes: Count | None = None,
        margin: NotNegative = 0.2,
        boundary: Distance = 1.2,
        anchors: Anchors = "embeddings",
        **kwargs: Unpack[LossArguments],
    ) -> None:
        super().__init__(**kwargs)
        self.num_classes = num_classes
        self.margin = margin
        self.boundary = boundary
        self.anchors = anchors
        self.boundaries = self.add_weight(
            name="boundaries",
            shape=(num_classes or 1,),
            initializer=keras.initializers.Constant(boundary),
            trainable=True,
        )

    @property
    def proxy_variables(self) -> list[tf.Variable]:
        """The boundaries."""
        return [self.boundaries]

    def call(
        self,
        embeddings: tf.Tensor,
        labels: tf.Tensor,
        references: References | None = None,
        sample_weight: tf.Tensor | None = None,
    ) -> tf.Tensor:
        """Return the loss of a batch; see `MetricLoss`."""
        batch = embeddings, labels, references, sample_weight
        pairs = compare(*batch, normalization=self.normalization, anchors=self.anchors)
        distances = pairwise_distances(pairs.anchors, pairs.references)
        boundaries = tf.cast(self._boundaries_of(pairs.anchor_labels), distances.dtype)
        return margin_terms(distances, pairs.positive, pairs.negative, boundaries, self.margin, pairs.anchor_weights)

    def _boundaries_of(self, labels: tf.Tensor) -> tf.Tensor:
        """Return β of the class of each label, `[anchors]`."""
        boundaries = tf.reshape(self.boundaries, [-1])  # the gradient of a reshaped tensor is not a sparse one
        if self.num_classes is None:
            return tf.repeat(boundaries, tf.shape(labels)[0])
        labels = integer_labels(labels)  # refuses several of them
        known = (labels >= 0) & (labels < self.num_classes)
        own = tf.gather(boundaries, tf.where(known, labels, tf.zeros_like(labels)))
        return tf.where(known, own, tf.constant(self.boundary, own.dtype))

    def get_config(self) -> dict:
        """Return the constructor's arguments."""
        return {
            **super().get_config(),
            "num_classes": self.num_classes,
            "margin": self.margin,
            "boundary": self.boundary,
            "anchors": self.anchors,
        }
