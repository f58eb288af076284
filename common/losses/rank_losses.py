"""Losses that approximate ranks: Smooth-AP, ROADMAP, recall@k, penalised negatives, FastAP.

The rank of a positive p of an anchor a counts the references that are more similar: with s the similarity,
r(p) = 1 + Σ_{z ≠ p} H(s_az - s_ap). The losses replace the step H by a function with a gradient.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Literal, NamedTuple

import tensorflow as tf
from tensorflow import keras

from common.errors import invalid
from common.losses.metric_loss import MetricLoss
from common.ops.distances import pairwise_inner_products, pairwise_squared_distances
from common.ops.reductions import masked_mean
from common.parameters import Anchors, Count, LossArguments, Positive, Share, Similarity, Unpack, checked
from common.references.comparison import Comparison, compare
from common.references.reference_set import References


class RankedPositives(NamedTuple):
    """The positives of all anchors, beside the references that compete with them.

    Attributes:
        anchors: place of each positive's anchor `[positives]`.
        gaps: s_az - s_ap for each reference z `[positives, references]`.
        others: the anchor's other positives, bool `[positives, references]`.
        negatives: the anchor's negatives, bool `[positives, references]`.
    """

    anchors: tf.Tensor
    gaps: tf.Tensor
    others: tf.Tensor
    negatives: tf.Tensor


def total(steps: tf.Tensor, mask: tf.Tensor) -> tf.Tensor:
    """Add up the steps of the references in a mask `[positives, references]`: `[positives]`."""
    return tf.reduce_sum(tf.where(mask, steps, tf.zeros_like(steps)), axis=1)


def ranked_positives(pairs: Comparison, similarities: tf.Tensor) -> RankedPositives:
    """List the positives of each anchor with their gaps to all references.

    Args:
        pairs: the anchors and references.
        similarities: of all pairs `[anchors, references]`.
    """
    num_references = tf.shape(similarities, tf.int64)[1]
    places = tf.squeeze(tf.where(tf.reshape(pairs.positive, [-1])), axis=1)  # one dimension: XLA proves its size equal
    anchors, columns = places // num_references, places % num_references
    own_similarities = tf.gather(tf.reshape(similarities, [-1]), places)
    gaps = tf.gather(similarities, anchors) - tf.expand_dims(own_similarities, 1)
    others = tf.gather(pairs.positive, anchors) & (tf.range(num_references)[None] != tf.expand_dims(columns, 1))
    return RankedPositives(anchors, gaps, others, tf.gather(pairs.negative, anchors))


class AnchoredLoss(MetricLoss):
    """A loss of anchors and the references beside them; abstract.

    Args:
        anchors: `"embeddings"` or `"references"`; see `MultiSimilarityLoss`.
        **kwargs: `normalization`, `name`, `dtype`; see `MetricLoss`.
    """

    @checked
    def __init__(self, anchors: Anchors = "embeddings", **kwargs: Unpack[LossArguments]) -> None:
        super().__init__(**kwargs)
        self.anchors = anchors

    def call(
        self,
        embeddings: tf.Tensor,
        labels: tf.Tensor,
        references: References | None = None,
        sample_weight: tf.Tensor | None = None,
    ) -> tf.Tensor:
        """Return the loss of a batch; see `MetricLoss`."""
        batch = embeddings, labels, references, sample_weight
        return self.of_pairs(compare(*batch, normalization=self.normalization, anchors=self.anchors))

    def of_pairs(self, pairs: Comparison) -> tf.Tensor:
        """Return the loss, a scalar.

        Args:
            pairs: the anchors and references.
        """
        raise NotImplementedError(f"{type(self).__name__} must implement of_pairs(pairs).")

    def get_config(self) -> dict:
        """Return the constructor's arguments."""
        return {**super().get_config(), "anchors": self.anchors}


class RankLoss(AnchoredLoss):
    """Mean over anchors of a function of the smooth ranks of their positives; abstract.

    Args:
        temperature: τ of the sigmoid σ(x/τ) that replaces the step, greater than 0.
        anchors: `"embeddings"` or `"references"`; see `MultiSimilarityLoss`.
        **kwargs: `normalization`, `name`, `dtype`; see `MetricLoss`.
    """

    @checked
    def __init__(
        self, temperature: Positive = 0.01, anchors: Anchors = "embeddings", **kwargs: Unpack[LossArguments]
    ) -> None:
        super().__init__(anchors, **kwargs)
        self.temperature = temperature

    def of_pairs(self, pairs: Comparison) -> tf.Tensor:
        """Return the mean over anchors, and any further term."""
        similarities = pairwise_inner_products(pairs.anchors, pairs.references)
        terms = self.terms(ranked_positives(pairs, similarities), pairs)
        value = masked_mean(pairs.weighted(terms), tf.reduce_any(pairs.positive, axis=1))
        return value + self.beside(similarities, pairs)

    def terms(self, ranked: RankedPositives, pairs: Comparison) -> tf.Tensor:
        """Return the loss of each anchor `[anchors]`.

        Args:
            ranked: the positives.
            pairs: the anchors and references.
        """
        raise NotImplementedError(f"{type(self).__name__} must implement terms(ranked, pairs).")

    def beside(self, similarities: tf.Tensor, pairs: Comparison) -> tf.Tensor:
        """Return a further term, by default 0."""
        del pairs
        return tf.zeros([], similarities.dtype)

    def smooth_steps(self, gaps: tf.Tensor) -> tf.Tensor:
        """Return σ(gap / τ), the smooth step."""
        return tf.sigmoid(gaps / self.temperature)

    def sum_by_anchor(self, values: tf.Tensor, ranked: RankedPositives, pairs: Comparison) -> tf.Tensor:
        """Add up values `[positives]` by anchor: `[anchors]`."""
        return tf.math.unsorted_segment_sum(values, ranked.anchors, tf.shape(pairs.positive)[0])

    def mean_by_anchor(self, values: tf.Tensor, ranked: RankedPositives, pairs: Comparison) -> tf.Tensor:
        """Average values `[positives]` by anchor: `[anchors]`, 0 without a positive."""
        counts = tf.cast(tf.math.count_nonzero(pairs.positive, axis=1), values.dtype)
        return tf.math.divide_no_nan(self.sum_by_anchor(values, ranked, pairs), counts)

    def get_config(self) -> dict:
        """Return the constructor's arguments."""
        return {**super().get_config(), "temperature": self.temperature}


@keras.utils.register_keras_serializable(package="deep_metric_learning")
class SmoothAPLoss(RankLoss):
    """Smooth-AP: one minus average precision with smooth ranks.

    `mean_a { 1 - mean_p r⁺(p) / (r⁺(p) + r⁻(p)) }`: r⁺(p) = 1 + Σ σ((s_az - s_ap)/τ) over the other positives z, r⁻(p)
    the sum over the negatives.

    Reference: Brown, Xie, Kalogeiton, Zisserman: Smooth-AP, ECCV 2020, equations 5 and 6, τ = .01. Its code also ranks
    the anchor itself as its first positive; here an anchor is no partner of its own.

    Args:
        temperature: τ, greater than 0; towards 0 the loss is one minus the exact average precision.
        anchors: `"embeddings"` or `"references"`; see `MultiSimilarityLoss`.
        **kwargs: `normalization`, `name`, `dtype`; see `MetricLoss`.

    Examples:
        >>> SmoothAPLoss(0.01)(tf.random.normal([32, 128]), tf.repeat(tf.range(8), 4))
    """

    def terms(self, ranked: RankedPositives, pairs: Comparison) -> tf.Tensor:
        """Return one minus the average precision of each anchor."""
        above = 1.0 + total(self.positive_steps(ranked.gaps), ranked.others)
        below = total(self.negative_steps(ranked.gaps), ranked.negatives)
        return self.mean_by_anchor(below / (above + below), ranked, pairs)

    def positive_steps(self, gaps: tf.Tensor) -> tf.Tensor:
        """Return the steps of the other positives."""
        return self.smooth_steps(gaps)

    def negative_steps(self, gaps: tf.Tensor) -> tf.Tensor:
        """Return the steps of the negatives."""
        return self.smooth_steps(gaps)


@keras.utils.register_keras_serializable(package="deep_metric_learning")
class RoadmapLoss(SmoothAPLoss):
    """ROADMAP: an upper bound of one minus average precision, and a calibration of similarities.

    `(1 - λ) SupAP + λ { mean_{positives} [α - s]₊ + mean_{negatives} [s - β]₊ }`. SupAP is Smooth-AP whose positives
    have the exact step (without a gradient), and whose negatives have an upper bound of it: σ(x/τ) for x ≤ 0,
    σ(x/τ) + 1/2 up to δ, and from there a line of slope ρ. So a negative far above a positive keeps its gradient.

    Reference: Ramzi, Thome, Rambour, Audebert, Bitot: Robust and Decomposable Average Precision for Image Retrieval,
    NeurIPS 2021, equations 4 to 7 (τ = .01, ρ = 100, δ = .05, λ = 1/2, α = .9, β = .6). The line is continuous at δ, as
    printed; that of the published code jumps there. Its calibration averages over violating pairs, the printed one over
    all.

    Args:
        temperature: τ, greater than 0.
        anchors: `"embeddings"` or `"references"`; see `MultiSimilarityLoss`.
        slope: ρ, greater than 0.
        knee: δ, greater than 0.
        calibration_weight: λ, in [0, 1].
        positive_threshold: α.
        negative_threshold: β.
        **kwargs: `normalization`, `name`, `dtype`; see `MetricLoss`.

    Examples:
        >>> RoadmapLoss()(tf.random.normal([32, 128]), tf.repeat(tf.range(8), 4))
    """

    @checked
    def __init__(
        self,
        temperature: Positive = 0.01,
        anchors: Anchors = "embeddings",
        slope: Positive = 100.0,
        knee: Positive = 0.05,
        calibration_weight: Share = 0.5,
        positive_threshold: Similarity = 0.9,
        negative_threshold: Similarity = 0.6,
        **kwargs: Unpack[LossArguments],
    ) -> None:
        super().__init__(temperature, anchors, **kwargs)
        self.slope = slope
        self.knee = knee
        self.calibration_weight = calibration_weight
        self.positive_threshold, self.negative_threshold = positive_threshold, negative_threshold

    def terms(self, ranked: RankedPositives, pairs: Comparison) -> tf.Tensor:
        """Return `(1 - λ)` times the bound of each anchor."""
        return (1.0 - self.calibration_weight) * super().terms(ranked, pairs)

    def positive_steps(self, gaps: tf.Tensor) -> tf.Tensor:
        """Return the exact step."""
        return tf.cast(gaps > 0, gaps.dtype)

    def negative_steps(self, gaps: tf.Tensor) -> tf.Tensor:
        """Return the upper bound of the step."""
        upper = tf.where(gaps > 0, self.smooth_steps(tf.minimum(gaps, self.knee)) + 0.5, self.smooth_steps(gaps))
        return upper + self.slope * tf.nn.relu(gaps - self.knee)

    def beside(self, similarities: tf.Tensor, pairs: Comparison) -> tf.Tensor:
        """Return λ times the calibration."""
        of_positives = pairs.weighted(tf.nn.relu(self.positive_threshold - similarities))
        of_negatives = pairs.weighted(tf.nn.relu(similarities - self.negative_threshold))
        values = masked_mean(of_positives, pairs.positive) + masked_mean(of_negatives, pairs.negative)
        return self.calibration_weight * values

    def get_config(self) -> dict:
        """Return the constructor's arguments."""
        names = ("slope", "knee", "calibration_weight", "positive_threshold", "negative_threshold")
        return {**super().get_config(), **{name: getattr(self, name) for name in names}}


@keras.utils.register_keras_serializable(package="deep_metric_learning")
class RecallAtKLoss(RankLoss):
    """Recall@k surrogate: one minus the smooth share of positives among the k nearest.

    `mean_a mean_k { 1 - min(k, Σ_p σ((k - r(p))/τ_k)) / min(k, P) }` for P positives p of the anchor a, with smooth
    ranks r(p).

    Reference: Patel, Tolias, Matas: Recall@k Surrogate Loss with Large Batches and Similarity Mixup, CVPR 2022,
    equations 4 to 6 (τ = .01, τ_k = 1, k of 1, 2, 4, 8, 16). As printed, a rank of exactly k counts half. Its code
    counts the anchor in its own ranks; here an anchor is no partner of its own.

    Args:
        ks: numbers of nearest references, each at least 1.
        temperature: τ of the ranks, greater than 0.
        rank_temperature: τ_k, of the comparison of ranks with k, greater than 0.
        anchors: `"embeddings"` or `"references"`; see `MultiSimilarityLoss`.
        **kwargs: `normalization`, `name`, `dtype`; see `MetricLoss`.

    Raises:
        InvalidInput: no k, or one below 1.

    Examples:
        >>> RecallAtKLoss()(tf.random.normal([32, 128]), tf.repeat(tf.range(8), 4))
    """

    @checked
    def __init__(
        self,
        ks: Sequence[int] = (1, 2, 4, 8, 16),
        temperature: Positive = 0.01,
        rank_temperature: Positive = 1.0,
        anchors: Anchors = "embeddings",
        **kwargs: Unpack[LossArguments],
    ) -> None:
        super().__init__(temperature, anchors, **kwargs)
        if not ks or min(ks) < 1:
            raise invalid("ks", received=tuple(ks), expected="numbers of at least 1")
        self.ks = tuple(ks)
        self.rank_temperature = rank_temperature

    def terms(self, ranked: RankedPositives, pairs: Comparison) -> tf.Tensor:
        """Return the mean over k of one minus the smooth recall of each anchor."""
        ranks = 1.0 + total(self.smooth_steps(ranked.gaps), ranked.others | ranked.negatives)
        counts = tf.cast(tf.math.count_nonzero(pairs.positive, axis=1), ranks.dtype)
        missing = []
        for k in self.ks:
            found = self.sum_by_anchor(tf.sigmoid((k - ranks) / self.rank_temperature), ranked, pairs)
            missing.append(1.0 - tf.math.divide_no_nan(tf.minimum(found, k), tf.minimum(counts, k)))
        return tf.add_n(missing) / len(missing)

    def get_config(self) -> dict:
        """Return the constructor's arguments."""
        return {**super().get_config(), "ks": self.ks, "rank_temperature": self.rank_temperature}


_PENALTIES: dict[str, Callable[[tf.Tensor, float], tf.Tensor]] = {
    "linear": lambda count, _: count,
    "logarithmic": lambda count, _: tf.math.log1p(count),
    "quotient": lambda count, power: 1.0 - (1.0 + count) ** -power,
    "increasing": lambda count, _: (1.0 + count) * tf.math.log1p(count),
    "bounded": lambda count, power: (power * count - tf.math.log1p(power * count)) / power**2,
}


@keras.utils.register_keras_serializable(package="deep_metric_learning")
class PenalizedNegativesLoss(RankLoss):
    """PNP: a penalty on the negatives that are nearer than a positive.

    `mean_a mean_p f(r⁻(p))` of the smooth number of negatives r⁻(p) before the positive p. f(r) is r (`linear`, PNP-O),
    log(1 + r) (`logarithmic`, PNP-D_s), 1 - (1 + r)^-α (`quotient`, PNP-D_q), (1 + r) log(1 + r) (`increasing`,
    PNP-I_u) or (α r - log(1 + α r)) / α² (`bounded`, PNP-I_b).

    Reference: Li, Min, Song, Jiang, Ji, Zhang: Rethinking the Optimization of Average Precision: Only Penalizing
    Negative Instances before Positive Ones is Enough, AAAI 2022, equations 7 to 12 (τ = .01). Its code ranks the anchor
    itself as a positive, too; here an anchor is no partner of its own.

    Args:
        penalty: name of f, above.
        power: α, greater than 0, of `quotient` and `bounded`.
        temperature: τ, greater than 0.
        anchors: `"embeddings"` or `"references"`; see `MultiSimilarityLoss`.
        **kwargs: `normalization`, `name`, `dtype`; see `MetricLoss`.

    Examples:
        >>> PenalizedNegativesLoss()(tf.random.normal([32, 128]), tf.repeat(tf.range(8), 4))
    """

    @checked
    def __init__(
        self,
        penalty: Literal["linear", "logarithmic", "quotient", "increasing", "bounded"] = "quotient",
        power: Positive = 1.0,
        temperature: Positive = 0.01,
        anchors: Anchors = "embeddings",
        **kwargs: Unpack[LossArguments],
    ) -> None:
        super().__init__(temperature, anchors, **kwargs)
        self.penalty = penalty
        self.power = power

    def terms(self, ranked: RankedPositives, pairs: Comparison) -> tf.Tensor:
        """Return the mean penalty of each anchor."""
        before = total(self.smooth_steps(ranked.gaps), ranked.negatives)
        return self.mean_by_anchor(_PENALTIES[self.penalty](before, self.power), ranked, pairs)

    def get_config(self) -> dict:
        """Return the constructor's arguments."""
        return {**super().get_config(), "penalty": self.penalty, "power": self.power}


@keras.utils.register_keras_serializable(package="deep_metric_learning")
class FastAPLoss(AnchoredLoss):
    """FastAP: one minus average precision over a histogram of squared distances.

    `mean_a { 1 - (1/P) Σ_j h⁺_j H⁺_j / H_j }` for an anchor with P positives: h⁺_j is the soft number of positives at
    the node j, H⁺_j and H_j those of positives and of all partners up to j. The nodes divide [0, 4] evenly; a partner
    counts at the two nearest ones, linearly.

    Reference: Cakir, He, Xia, Kulis, Sclaroff: Deep Metric Learning to Rank, CVPR 2019, equations 5 to 8 (10 bins).

    Args:
        num_bins: between 0 and 4, at least 1; there is one node more.
        anchors: `"embeddings"` or `"references"`; see `MultiSimilarityLoss`.
        **kwargs: `normalization`, `name`, `dtype`; see `MetricLoss`. Squared distances beyond 4, which unit vectors do
            not have, count as 4.

    Raises:
        InvalidInput: fewer than one bin.

    Examples:
        >>> FastAPLoss(10)(tf.random.normal([32, 128]), tf.repeat(tf.range(8), 4))
    """

    @checked
    def __init__(self, num_bins: Count = 10, anchors: Anchors = "embeddings", **kwargs: Unpack[LossArguments]) -> None:
        super().__init__(anchors, **kwargs)
        self.num_bins = num_bins

    def of_pairs(self, pairs: Comparison) -> tf.Tensor:
        """Return the mean over anchors."""
        distances = pairwise_squared_distances(pairs.anchors, pairs.references)
        of_positives, of_negatives = (self._histograms(distances, mask) for mask in (pairs.positive, pairs.negative))
        of_all = of_positives + of_negatives
        parts = of_positives * tf.math.divide_no_nan(tf.cumsum(of_positives, axis=1), tf.cumsum(of_all, axis=1))
        counts = tf.cast(tf.math.count_nonzero(pairs.positive, axis=1), distances.dtype)
        terms = 1.0 - tf.math.divide_no_nan(tf.reduce_sum(parts, axis=1), counts)
        return masked_mean(pairs.weighted(terms), tf.reduce_any(pairs.positive, axis=1))

    def _histograms(self, distances: tf.Tensor, mask: tf.Tensor) -> tf.Tensor:
        """Return each anchor's soft histogram of its partners in `mask`: `[anchors, nodes]`."""
        places = tf.minimum(distances, 4.0) * (self.num_bins / 4.0)
        lower = tf.clip_by_value(tf.cast(places, tf.int32), 0, self.num_bins - 1)
        upper_shares = tf.where(mask, places - tf.cast(lower, places.dtype), tf.zeros_like(places))
        lower_shares = tf.where(mask, 1.0 - upper_shares, tf.zeros_like(places))
        num_anchors, num_nodes = tf.shape(distances)[0], self.num_bins + 1
        nodes = lower + num_nodes * tf.range(num_anchors)[:, None]
        sums = tf.math.unsorted_segment_sum(lower_shares, nodes, num_anchors * num_nodes)
        sums += tf.math.unsorted_segment_sum(upper_shares, nodes + 1, num_anchors * num_nodes)
        return tf.reshape(sums, [num_anchors, num_nodes])

    def get_config(self) -> dict:
        """Return the constructor's arguments."""
        return {**super().get_config(), "num_bins": self.num_bins}
