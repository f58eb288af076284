"""Settings of the losses, each beside the constructor that it feeds."""

from __future__ import annotations

import dataclasses
import functools
from typing import TYPE_CHECKING

from common import losses
from experiments.settings.setting import FINITE, NOT_NEGATIVE, POSITIVE, LossContext, LossSettings, NumberRange, setting

if TYPE_CHECKING:
    from common.losses import MetricLoss  # alone: documents read which of `losses` a `build` makes


@dataclasses.dataclass(frozen=True, kw_only=True)
class SharedSetting(LossSettings, title="Several losses"):
    """A setting of several losses."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class MarginSetting(SharedSetting):
    """The margin of losses that have one."""

    margin: float = setting(
        "c1, triplet, margin, lifted, quadruplet, snr_triplet, arcface (radians), circle: margin", within=FINITE
    )


@dataclasses.dataclass(frozen=True, kw_only=True)
class TwoMarginsSetting(SharedSetting):
    """The margins of losses over distances that have one for each kind of pair."""

    positive_margin: float = setting("c2 and snr: largest distance of positives without loss", within=NOT_NEGATIVE)
    negative_margin: float = setting("c2 and snr: smallest distance of negatives without loss", within=NOT_NEGATIVE)


@dataclasses.dataclass(frozen=True, kw_only=True)
class ReductionSetting(SharedSetting):
    """The reduction over the terms of an anchor's partners."""

    pair_reduction: str = setting(
        "c1 and ms: the terms of an anchor's partners are added (`sum`; default) or divided by the number of active "
        "ones, too (`mean_of_active`)",
        "sum",
        choices=("sum", "mean_of_active"),
        argument="reduction",
        omit_default=True,
    )


@dataclasses.dataclass(frozen=True, kw_only=True)
class ScaleSetting(SharedSetting):
    """The scale of similarities."""

    loss_scale: float = setting(
        "npair, angular, arcface and circle: scale of the similarities", within=POSITIVE, argument="scale"
    )


@dataclasses.dataclass(frozen=True, kw_only=True)
class NormPenaltySetting(SharedSetting):
    """The weight of the embeddings' norm."""

    norm_penalty: float = setting("npair, angular and lifted: weight of the embeddings' mean norm", within=NOT_NEGATIVE)


@dataclasses.dataclass(frozen=True, kw_only=True)
class MeanPenaltySetting(SharedSetting):
    """The weight of the sum of an embedding's components."""

    mean_penalty: float = setting("snr: weight of the sum of each embedding's components", within=NOT_NEGATIVE)


@dataclasses.dataclass(frozen=True, kw_only=True)
class CosineContrastiveSettings(MarginSetting, ReductionSetting, constructor=lambda: losses.CosineContrastiveLoss):
    """`--loss=c1`."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class ContrastiveSettings(TwoMarginsSetting, constructor=lambda: losses.ContrastiveLoss):
    """`--loss=c2`."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class TripletSettings(
    MarginSetting, title="Triplet loss (triplet)", constructor=lambda: losses.TripletLoss, sees_one_side=True
):
    """`--loss=triplet`."""

    triplet_squared: bool = setting("triplet: squared distances", False, argument="squared", omit_default=True)


@dataclasses.dataclass(frozen=True, kw_only=True)
class MultiSimilaritySettings(
    ReductionSetting,
    title="Multi-similarity loss (ms)",
    constructor=lambda: losses.MultiSimilarityLoss,
    sees_one_side=True,
):
    """`--loss=ms`."""

    ms_alpha: float = setting("multi-similarity: scale of positives", within=POSITIVE, argument="positive_scale")
    ms_beta: float = setting("multi-similarity: scale of negatives", within=POSITIVE, argument="negative_scale")
    ms_base: float = setting("multi-similarity: similarity threshold (lambda)", within=FINITE, argument="threshold")


@dataclasses.dataclass(frozen=True, kw_only=True)
class MarginLossSettings(MarginSetting, title="Margin loss (margin)", sees_one_side=True):
    """`--loss=margin`."""

    boundary: float = setting("margin: first value of the learnable boundary (beta)", within=NOT_NEGATIVE)
    boundary_per_class: bool = setting("margin: a boundary for each class, or one for all")

    def build(self, context: LossContext) -> MetricLoss:
        """Build the margin loss, with its boundaries."""
        num_classes = context.num_classes if self.boundary_per_class else None
        return losses.MarginLoss(
            num_classes, self.margin, self.boundary, context.anchors, normalization=context.normalization
        )


@dataclasses.dataclass(frozen=True, kw_only=True)
class NPairSettings(ScaleSetting, NormPenaltySetting, constructor=lambda: losses.NPairLoss, sees_one_side=True):
    """`--loss=npair`."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class LiftedStructureSettings(
    MarginSetting, NormPenaltySetting, constructor=lambda: losses.LiftedStructureLoss, sees_one_side=True
):
    """`--loss=lifted`."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class GeneralizedLiftedSettings(
    MarginSetting,
    NormPenaltySetting,
    constructor=lambda: functools.partial(losses.LiftedStructureLoss, generalized=True),
    sees_one_side=True,
):
    """`--loss=lifted_generalized`."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class QuadrupletSettings(
    MarginSetting, title="Quadruplet loss (quadruplet)", constructor=lambda: losses.QuadrupletLoss, sees_one_side=True
):
    """`--loss=quadruplet`."""

    second_margin: float = setting("quadruplet: margin between pairs without a common image", within=NOT_NEGATIVE)


@dataclasses.dataclass(frozen=True, kw_only=True)
class AngularSettings(ScaleSetting, NormPenaltySetting, title="Angular loss (angular)", sees_one_side=True):
    """`--loss=angular`: added to the N-pair loss."""

    angle: float = setting(
        "angular: largest angle at the negative (alpha), in degrees", within=NumberRange(0, 60, high_included=True)
    )
    angular_weight: float = setting("angular: its weight beside the N-pair loss", within=NOT_NEGATIVE)

    def build(self, context: LossContext) -> MetricLoss:
        """Build the weighted sum of the N-pair and the angular loss."""
        pairs = losses.NPairLoss(
            self.loss_scale, self.norm_penalty, context.anchors, normalization=context.normalization
        )
        parts = [pairs, losses.AngularLoss(self.angle, context.anchors)]
        return losses.WeightedSumLoss(parts, [1.0, self.angular_weight])


@dataclasses.dataclass(frozen=True, kw_only=True)
class HistogramSettings(LossSettings, title="Histogram loss (histogram)", constructor=lambda: losses.HistogramLoss):
    """`--loss=histogram`."""

    histogram_nodes: int = setting(
        "histogram: nodes between similarities of -1 and 1",
        within=NumberRange(low=2, low_included=True),
        argument="num_nodes",
    )


@dataclasses.dataclass(frozen=True, kw_only=True)
class SignalToNoiseSettings(TwoMarginsSetting, MeanPenaltySetting, constructor=lambda: losses.SignalToNoiseLoss):
    """`--loss=snr`."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class SignalToNoiseTripletSettings(
    MarginSetting, MeanPenaltySetting, constructor=lambda: functools.partial(losses.SignalToNoiseLoss, "triplet")
):
    """`--loss=snr_triplet`."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class CircleSettings(MarginSetting, ScaleSetting, constructor=lambda: losses.CircleLoss, sees_one_side=True):
    """`--loss=circle`."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class SupervisedContrastiveSettings(
    LossSettings,
    title="Supervised contrastive loss (SupCon) on inner products s of unit embeddings (supcon)",
    constructor=lambda: losses.SupervisedContrastiveLoss,
    sees_one_side=True,
):
    """`--loss=supcon`."""

    supcon_temperature: float = setting(
        "supcon: temperature of the soft-max (τ)", 0.1, within=POSITIVE, argument="temperature"
    )


@dataclasses.dataclass(frozen=True, kw_only=True)
class RankSetting(SharedSetting, sees_one_side=True):
    """The temperature of smooth ranks."""

    rank_temperature: float = setting(
        "smoothap, roadmap, recall_at_k and pnp: temperature of the sigmoid that counts more similar images",
        0.01,
        within=POSITIVE,
        argument="temperature",
    )


@dataclasses.dataclass(frozen=True, kw_only=True)
class SmoothAPSettings(RankSetting, constructor=lambda: losses.SmoothAPLoss):
    """`--loss=smoothap`."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class RoadmapSettings(RankSetting, title="ROADMAP (roadmap)", constructor=lambda: losses.RoadmapLoss):
    """`--loss=roadmap`."""

    calibration_weight: float = setting(
        "roadmap: weight of the calibration of similarities beside the ranks",
        0.5,
        within=NumberRange(0, 1, low_included=True, high_included=True),
    )
    calibration_positive: float = setting(
        "roadmap: similarity of positives without a term", 0.9, within=FINITE, argument="positive_threshold"
    )
    calibration_negative: float = setting(
        "roadmap: similarity of negatives without a term", 0.6, within=FINITE, argument="negative_threshold"
    )


@dataclasses.dataclass(frozen=True, kw_only=True)
class RecallAtKSettings(RankSetting, title="Recall@k surrogate (recall_at_k)"):
    """`--loss=recall_at_k`: k of 1, 2, 4, ... up to a largest one."""

    largest_k: int = setting("recall_at_k: largest k, of 1, 2, 4, ...", 16, within=POSITIVE)

    def build(self, context: LossContext) -> MetricLoss:
        """Build the loss over the powers of two up to the largest k."""
        ks = [2**power for power in range(self.largest_k.bit_length())]
        return losses.RecallAtKLoss(
            ks, self.rank_temperature, anchors=context.anchors, normalization=context.normalization
        )


@dataclasses.dataclass(frozen=True, kw_only=True)
class PenalizedNegativesSettings(
    RankSetting, title="Penalised negatives (pnp)", constructor=lambda: losses.PenalizedNegativesLoss
):
    """`--loss=pnp`."""

    pnp_penalty: str = setting(
        "pnp: function of the number of negatives before a positive",
        "quotient",
        choices=("linear", "logarithmic", "quotient", "increasing", "bounded"),
        argument="penalty",
    )
    pnp_power: float = setting("pnp: power of `quotient` and `bounded`", 1.0, within=POSITIVE, argument="power")


@dataclasses.dataclass(frozen=True, kw_only=True)
class FastAPSettings(LossSettings, title="FastAP (fastap)", constructor=lambda: losses.FastAPLoss, sees_one_side=True):
    """`--loss=fastap`."""

    fastap_bins: int = setting("fastap: bins of squared distances", 10, within=POSITIVE, argument="num_bins")


@dataclasses.dataclass(frozen=True, kw_only=True)
class HyperbolicSettings(
    LossSettings, title="Hyperbolic loss (hyperbolic)", constructor=lambda: losses.HyperbolicLoss, sees_one_side=True
):
    """`--loss=hyperbolic`."""

    hyperbolic_curvature: float = setting(
        "hyperbolic: curvature of the space, without its sign (c)", 0.1, within=POSITIVE, argument="curvature"
    )
    hyperbolic_radius: float = setting(
        "hyperbolic: length of an embedding before the exponential map", 2.3, within=POSITIVE, argument="radius"
    )
    hyperbolic_temperature: float = setting(
        "hyperbolic: temperature of the soft-max over distances", 0.2, within=POSITIVE, argument="temperature"
    )


@dataclasses.dataclass(frozen=True, kw_only=True)
class ProxySetting(SharedSetting, has_proxies=True):
    """The initialisation of proxies."""

    proxy_initializer: str = setting("proxies: `he_normal` or `he_normal_over_proxies`", argument="initializer")


@dataclasses.dataclass(frozen=True, kw_only=True)
class TemperatureSetting(SharedSetting):
    """The temperature of a soft-max over proxies."""

    temperature: float = setting("pnca and normsoftmax: temperature of the soft-max", within=POSITIVE)


@dataclasses.dataclass(frozen=True, kw_only=True)
class ProxyNCASettings(
    ProxySetting, TemperatureSetting, title="ProxyNCA (pnca)", constructor=lambda: losses.ProxyNCALoss
):
    """`--loss=pnca`."""

    pnca_denominator: str = setting(
        "pnca: the soft-max is over `all` proxies (default), or over the `negatives` alone as first printed",
        "all",
        choices=("all", "negatives"),
        argument="denominator",
        omit_default=True,
    )


@dataclasses.dataclass(frozen=True, kw_only=True)
class NormalizedSoftmaxSettings(ProxySetting, TemperatureSetting, constructor=lambda: losses.NormalizedSoftmaxLoss):
    """`--loss=normsoftmax`."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class ProxyAnchorSettings(
    ProxySetting, title="Proxy anchor loss (panchor)", constructor=lambda: losses.ProxyAnchorLoss
):
    """`--loss=panchor`."""

    panchor_margin: float = setting("panchor: margin (delta)", within=FINITE, argument="margin")
    panchor_scale: float = setting("panchor: scale (alpha)", within=POSITIVE, argument="scale")


@dataclasses.dataclass(frozen=True, kw_only=True)
class SoftTripleSettings(ProxySetting, title="SoftTriple loss (softtriple)", constructor=lambda: losses.SoftTripleLoss):
    """`--loss=softtriple`."""

    centers_per_class: int = setting("softtriple: centres per class", within=POSITIVE)
    softtriple_scale: float = setting(
        "softtriple: scale of the soft-max over classes (lambda)", within=POSITIVE, argument="scale"
    )
    softtriple_gamma: float = setting(
        "softtriple: temperature of the assignment to centres (gamma)", within=POSITIVE, argument="gamma"
    )
    softtriple_tau: float = setting(
        "softtriple: weight of the regulariser of centres (tau)", within=NOT_NEGATIVE, argument="tau"
    )
    softtriple_margin: float = setting("softtriple: margin (delta)", within=FINITE, argument="margin")


@dataclasses.dataclass(frozen=True, kw_only=True)
class ArcFaceSettings(
    ProxySetting, MarginSetting, ScaleSetting, title="ArcFace (arcface)", constructor=lambda: losses.ArcFaceLoss
):
    """`--loss=arcface`."""

    arcface_centers: int = setting(
        "arcface: vectors of a class, of which the nearest counts",
        1,
        within=POSITIVE,
        argument="centers_per_class",
        omit_default=True,
    )


@dataclasses.dataclass(frozen=True, kw_only=True)
class CosFaceSettings(ProxySetting, title="CosFace (cosface)", constructor=lambda: losses.CosFaceLoss):
    """`--loss=cosface`."""

    cosface_margin: float = setting(
        "cosface: margin of the own class's cosine",
        0.35,
        within=NumberRange(0, 2, low_included=True, high_included=True),
        argument="margin",
    )
    cosface_scale: float = setting("cosface: scale of the cosines", 64.0, within=POSITIVE, argument="scale")
