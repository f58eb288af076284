"""A metric loss restricted to the pairs that a miner draws."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Literal

import tensorflow as tf
from tensorflow import keras

from common import miners
from common.errors import check_choice, invalid
from common.losses.composed_loss import LossAround
from common.losses.metric_loss import MetricLoss
from common.losses.proxy_loss import ProxyLoss
from common.losses.weighted_sum import WeightedSumLoss
from common.ops.normalization import normalize
from common.ops.pair_masks import batch_labels
from common.parameters import CountOrZero, LayerArguments, Share, Unpack, checked
from common.references.reference_set import Pairs, References

MINERS: dict[str, Callable[..., miners.Triplets | Pairs]] = {
    "random": miners.random_triplets,
    "semi_hard": miners.semi_hard,
    "soft_hard": miners.soft_hard,
    "distance_weighted": miners.distance_weighted,
    "inter_class": miners.inter_class,
    "inter_class_random_negatives": functools.partial(miners.inter_class, negatives="random"),
    "inter_class_semi_hard_negatives": functools.partial(miners.inter_class, negatives="semi_hard"),
    "inter_class_distance_positives": functools.partial(miners.inter_class, positives="distance"),
    "inter_class_nearest_positives": functools.partial(miners.inter_class, positives="nearest"),
    "intra_class": miners.intra_class,
    "batch_hard": miners.batch_hard,
    "multi_similarity": miners.multi_similarity_pairs,
}


@keras.utils.register_keras_serializable(package="deep_metric_learning")
class MinedLoss(LossAround):
    """`loss` over one triplet per anchor, drawn by a miner; with `rho_probability`, rho-regularised.

    The loss sees the same references with only the triplet's two pairs in a row, so that any loss over pairs or
    triplets can be mined, with a memory or without. `"multi_similarity"` keeps all hard pairs of an anchor instead.
    Draws are a function of `seed` and a step counter, which advances in calls with `training=True` and is saved with
    the model. With `draws_by="batch"` they are one of `seed` and the batch: there is no counter, so the loss goes into
    `compile(loss=...)`, and other rounding draws otherwise. Mining of the nearest semi-hard negative draws nothing:
    `TripletLoss(mining="nearest_semi_hard")`, tensorflow-addons' `TripletSemiHardLoss`.

    Reference: Milbich's dissertation, sections 2.2.1 (miners) and 2.4.1 (rho-regularisation). p is .3 to .4 on CUB and
    Cars and .15 on SOP there, with distance-weighted triplets.

    Gradient: that of the loss; none through the drawing.

    Args:
        loss: the `MetricLoss` over pairs or triplets; it normalises, this one only tells how. Anchors are the batch, so
            that `anchors="references"` is refused when it is called.
        miner: one of `MINERS`, or a layer with a method `triplets` of their arguments, such as
            `milbich_dml.SamplingDistribution`, which the loss then owns. Those of triplets of three classes or within
            one (`inter_class...`, `intra_class`) have pairs that contradict the labels, and a loss takes them as they
            are.
        rho_probability: with this probability a triplet (a, p, n) becomes (a, a, p); in [0, 1]. 0 with
            `"multi_similarity"`, which has no triplets.
        seed: at least 0.
        draws_by: `"step"`, or `"batch"`: the bits of the embeddings stand for the step. The same batch then
            has the same draws.
        **kwargs: `name`, `dtype`; see `MetricLoss`.

    Call arguments: those of `MetricLoss`, and `training`.

    Raises:
        InvalidInput: a loss over proxies of its own, or another argument out of its range.

    Examples:
        >>> loss = MinedLoss(MarginLoss(), "distance_weighted", rho_probability=0.35)
        >>> loss(tf.random.normal([32, 128]), tf.repeat(tf.range(16), 2), training=True)
    """

    @checked
    def __init__(
        self,
        loss: MetricLoss,
        miner: str | keras.layers.Layer = "distance_weighted",
        rho_probability: Share = 0.0,
        seed: CountOrZero = 0,
        draws_by: Literal["step", "batch"] = "step",
        **kwargs: Unpack[LayerArguments],
    ) -> None:
        super().__init__(loss, **kwargs)
        parts = loss.parts if isinstance(loss, WeightedSumLoss) else (loss,)
        if any(isinstance(part, ProxyLoss) for part in parts):
            expected = "a loss over the pairs of a batch"
            raise invalid("loss", received=type(loss).__name__, expected=expected, fix="Its proxies would be left out.")
        self.miner = miner
        if not isinstance(miner, keras.layers.Layer):
            check_choice("miner", miner, MINERS)
        self.rho_probability = rho_probability
        if rho_probability and miner == "multi_similarity":
            raise invalid("rho_probability", received=rho_probability, expected="0 with a miner of pairs")
        self.seed = seed
        self.draws_by = draws_by
        self.step: tf.Variable | None = None
        if self.draws_by == "step":
            self.step = self.add_weight(name="step", shape=(), dtype="int64", initializer="zeros", trainable=False)

    def call(
        self,
        embeddings: tf.Tensor,
        labels: tf.Tensor,
        references: References | None = None,
        training: bool | None = None,
        sample_weight: tf.Tensor | None = None,
    ) -> tf.Tensor:
        """Return the loss of a batch; see `MetricLoss`."""
        step = _bits_of(embeddings) if self.step is None else tf.convert_to_tensor(self.step)
        seed = tf.stack([tf.constant(self.seed, tf.int64), step])
        if training and self.step is not None:
            self.step.assign_add(1)
        mined = self._mined(embeddings, labels, references, seed)
        return self.loss(embeddings, labels, mined, sample_weight=sample_weight)

    def _mined(
        self, embeddings: tf.Tensor, labels: tf.Tensor, references: References | None, seed: tf.Tensor
    ) -> References:
        """Return the references (or the batch) with this step's mined pairs."""
        points, others = normalize(embeddings, self.loss.normalization), references
        if references is not None:
            others = references._replace(embeddings=normalize(references.embeddings, self.loss.normalization))
        if isinstance(self.miner, keras.layers.Layer):
            mined: miners.Triplets | Pairs = self.miner.triplets(points, labels, seed, others)
        else:
            mined = MINERS[self.miner](points, labels, seed, others)
        given = References(embeddings, labels) if references is None else references._replace(valid=None)
        if isinstance(mined, Pairs):
            return given._replace(pairs=mined)
        batch_size = tf.shape(embeddings)[0]
        if self.rho_probability:
            first_self = 0 if references is None else tf.shape(given.embeddings)[0]
            mined = miners.rho_regularized(mined, self.rho_probability, seed, batch_size, first_self)
        if self.rho_probability and references is not None:  # the anchors themselves take the positives' places
            given = _joined(given, References(embeddings, labels))
        return given._replace(pairs=miners.pairs_of(mined, batch_size, tf.shape(given.embeddings)[0]))

    def get_config(self) -> dict:
        """Return the constructor's arguments."""
        return {
            **super().get_config(),
            "miner": self.miner if isinstance(self.miner, str) else keras.utils.serialize_keras_object(self.miner),
            "rho_probability": self.rho_probability,
            "seed": self.seed,
            "draws_by": self.draws_by,
        }

    @classmethod
    def from_config(cls, config: dict) -> MinedLoss:
        """Build the loss that `get_config` describes."""
        miner = config["miner"]
        restored = miner if isinstance(miner, str) else keras.utils.deserialize_keras_object(miner)
        return super().from_config({**config, "miner": restored})


def _bits_of(embeddings: tf.Tensor) -> tf.Tensor:
    """Return an int64 scalar of all bits: components times odd numbers, summed."""
    bits = tf.cast(tf.bitcast(tf.cast(embeddings, tf.float32), tf.int32), tf.int64)
    return tf.reduce_sum(bits * tf.reshape(2 * tf.range(tf.size(bits, tf.int64)) + 1, tf.shape(bits)))


def _joined(first: References, second: References) -> References:
    """Join two reference sets, without their masks."""
    dtype = tf.convert_to_tensor(second.embeddings).dtype
    embeddings = tf.concat([tf.cast(first.embeddings, dtype), second.embeddings], axis=0)
    labels = tf.concat([batch_labels(part.labels) for part in (first, second)], axis=0)
    return References(embeddings, labels)
