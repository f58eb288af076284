"""Settings of the losses, each beside the constructor that it feeds."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, ClassVar

from common import losses
from experiments.settings.setting import (
    FINITE,
    NOT_NEGATIVE,
    POSITIVE,
    LossContext,
    LossSettings,
    NumberRange,
    setting,
)

if TYPE_CHECKING:
    from common.losses import MetricLoss


@dataclasses.dataclass(frozen=True, kw_only=True)
class SharedSetting(LossSettings):
    """A setting of several losses."""

    title: ClassVar[str] = "Several losses"


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
        omit_default=True,
    )


@dataclasses.dataclass(frozen=True, kw_only=True)
class ScaleSetting(SharedSetting):
    """The scale of similarities."""

    loss_scale: float = setting("npair, angular, arcface and circle: scale of the similarities", within=POSITIVE)


@dataclasses.dataclass(frozen=True, kw_only=True)
class NormPenaltySetting(SharedSetting):
    """The weight of the embeddings' norm."""

    norm_penalty: float = setting("npair, angular and lifted: weight of the embeddings' mean norm", within=NOT_NEGATIVE)


@dataclasses.dataclass(frozen=True, kw_only=True)
class MeanPenaltySetting(SharedSetting):
    """The weight of the sum of an embedding's components."""

    mean_penalty: float = setting("snr: weight of the sum of each embedding's components", within=NOT_NEGATIVE)


@dataclasses.dataclass(frozen=True, kw_only=True)
class CosineContrastiveSettings(MarginSetting, ReductionSetting):
    """`--loss=c1`."""

    def build(self, context: LossContext) -> MetricLoss:
        """Build the contrastive loss of similarities."""
        return losses.CosineContrastiveLoss(self.margin, self.pair_reduction, normalization=context.normalization)


@dataclasses.dataclass(frozen=True, kw_only=True)
class ContrastiveSettings(TwoMarginsSetting):
    """`--loss=c2`."""

    def build(self, context: LossContext) -> MetricLoss:
        """Build the contrastive loss of distances."""
        return losses.ContrastiveLoss(self.positive_margin, self.negative_margin, normalization=context.normalization)


@dataclasses.dataclass(frozen=True, kw_only=True)
class TripletSettings(MarginSetting):
    """`--loss=triplet`."""

    sees_one_side: ClassVar[bool] = True

    def build(self, context: LossContext) -> MetricLoss:
        """Build the triplet loss."""
        return losses.TripletLoss(self.margin, context.anchors, normalization=context.normalization)


@dataclasses.dataclass(frozen=True, kw_only=True)
class MultiSimilaritySettings(ReductionSetting):
    """`--loss=ms`."""

    title: ClassVar[str] = "Multi-similarity loss (ms)"
    sees_one_side: ClassVar[bool] = True

    ms_alpha: float = setting("multi-similarity: scale of positives", within=POSITIVE)
    ms_beta: float = setting("multi-similarity: scale of negatives", within=POSITIVE)
    ms_base: float = setting("multi-similarity: similarity threshold (lambda)", within=FINITE)

    def build(self, context: LossContext) -> MetricLoss:
        """Build the multi-similarity loss."""
        scales = (self.ms_alpha, self.ms_beta, self.ms_base)
        return losses.MultiSimilarityLoss(
            *scales, context.anchors, self.pair_reduction, normalization=context.normalization
        )


@dataclasses.dataclass(frozen=True, kw_only=True)
class MarginLossSettings(MarginSetting):
    """`--loss=margin`."""

    title: ClassVar[str] = "Margin loss (margin)"
    sees_one_side: ClassVar[bool] = True

    boundary: float = setting("margin: first value of the learnable boundary (beta)", within=NOT_NEGATIVE)
    boundary_per_class: bool = setting("margin: a boundary for each class, or one for all")

    def build(self, context: LossContext) -> MetricLoss:
        """Build the margin loss, with its boundaries."""
        num_classes = context.num_classes if self.boundary_per_class else None
        return losses.MarginLoss(
            num_classes, self.margin, self.boundary, context.anchors, normalization=context.normalization
        )


@dataclasses.dataclass(frozen=True, kw_only=True)
class NPairSettings(ScaleSetting, NormPenaltySetting):
    """`--loss=npair`."""

    sees_one_side: ClassVar[bool] = True

    def build(self, context: LossContext) -> MetricLoss:
        """Build the N-pair loss."""
        return losses.NPairLoss(
            self.loss_scale, self.norm_penalty, context.anchors, normalization=context.normalization
        )


@dataclasses.dataclass(frozen=True, kw_only=True)
class LiftedStructureSettings(MarginSetting, NormPenaltySetting):
    """`--loss=lifted`."""

    generalized: ClassVar[bool] = False
    sees_one_side: ClassVar[bool] = True

    def build(self, context: LossContext) -> MetricLoss:
        """Build the lifted structure loss."""
        return losses.LiftedStructureLoss(
            self.margin, self.generalized, self.norm_penalty, context.anchors, normalization=context.normalization
        )


@dataclasses.dataclass(frozen=True, kw_only=True)
class GeneralizedLiftedSettings(LiftedStructureSettings):
    """`--loss=lifted_generalized`."""

    generalized: ClassVar[bool] = True


@dataclasses.dataclass(frozen=True, kw_only=True)
class QuadrupletSettings(MarginSetting):
    """`--loss=quadruplet`."""

    title: ClassVar[str] = "Quadruplet loss (quadruplet)"
    sees_one_side: ClassVar[bool] = True

    second_margin: float = setting("quadruplet: margin between pairs without a common image", within=NOT_NEGATIVE)

    def build(self, context: LossContext) -> MetricLoss:
        """Build the quadruplet loss."""
        return losses.QuadrupletLoss(
            self.margin, self.second_margin, context.anchors, normalization=context.normalization
        )


@dataclasses.dataclass(frozen=True, kw_only=True)
class AngularSettings(NPairSettings):
    """`--loss=angular`: added to the N-pair loss."""

    title: ClassVar[str] = "Angular loss (angular)"

    angle: float = setting(
        "angular: largest angle at the negative (alpha), in degrees", within=NumberRange(0, 60, high_included=True)
    )
    angular_weight: float = setting("angular: its weight beside the N-pair loss", within=NOT_NEGATIVE)

    def build(self, context: LossContext) -> MetricLoss:
        """Build the weighted sum of the N-pair and the angular loss."""
        parts = [super().build(context), losses.AngularLoss(self.angle, context.anchors)]
        return losses.WeightedSumLoss(parts, [1.0, self.angular_weight])


@dataclasses.dataclass(frozen=True, kw_only=True)
class HistogramSettings(LossSettings):
    """`--loss=histogram`."""

    title: ClassVar[str] = "Histogram loss (histogram)"

    histogram_nodes: int = setting(
        "histogram: nodes between similarities of -1 and 1", within=NumberRange(low=2, low_included=True)
    )

    def build(self, context: LossContext) -> MetricLoss:
        """Build the histogram loss."""
        return losses.HistogramLoss(self.histogram_nodes, normalization=context.normalization)


@dataclasses.dataclass(frozen=True, kw_only=True)
class SignalToNoiseSettings(TwoMarginsSetting, MeanPenaltySetting):
    """`--loss=snr`."""

    def build(self, context: LossContext) -> MetricLoss:
        """Build the contrastive loss of signal-to-noise distances."""
        return losses.SignalToNoiseLoss(
            positive_margin=self.positive_margin,
            negative_margin=self.negative_margin,
            mean_penalty=self.mean_penalty,
            normalization=context.normalization,
        )


@dataclasses.dataclass(frozen=True, kw_only=True)
class SignalToNoiseTripletSettings(MarginSetting, MeanPenaltySetting):
    """`--loss=snr_triplet`."""

    def build(self, context: LossContext) -> MetricLoss:
        """Build the triplet loss of signal-to-noise distances."""
        return losses.SignalToNoiseLoss(
            "triplet", margin=self.margin, mean_penalty=self.mean_penalty, normalization=context.normalization
        )


@dataclasses.dataclass(frozen=True, kw_only=True)
class CircleSettings(MarginSetting, ScaleSetting):
    """`--loss=circle`."""

    sees_one_side: ClassVar[bool] = True

    def build(self, context: LossContext) -> MetricLoss:
        """Build the circle loss."""
        return losses.CircleLoss(self.margin, self.loss_scale, context.anchors, normalization=context.normalization)


@dataclasses.dataclass(frozen=True, kw_only=True)
class SupervisedContrastiveSettings(LossSettings):
    """`--loss=supcon`."""

    title: ClassVar[str] = "Supervised contrastive loss (SupCon) on inner products s of unit embeddings (supcon)"
    sees_one_side: ClassVar[bool] = True

    supcon_temperature: float = setting("supcon: temperature of the soft-max (τ) (default: 0.1)", 0.1, within=POSITIVE)

    def build(self, context: LossContext) -> MetricLoss:
        """Build the supervised contrastive loss."""
        return losses.SupervisedContrastiveLoss(
            self.supcon_temperature, context.anchors, normalization=context.normalization
        )


@dataclasses.dataclass(frozen=True, kw_only=True)
class ProxySetting(SharedSetting):
    """The initialisation of proxies."""

    has_proxies: ClassVar[bool] = True

    proxy_initializer: str = setting("proxies: `he_normal` or `he_normal_over_proxies`")


@dataclasses.dataclass(frozen=True, kw_only=True)
class TemperatureSetting(SharedSetting):
    """The temperature of a soft-max over proxies."""

    temperature: float = setting("pnca and normsoftmax: temperature of the soft-max", within=POSITIVE)


@dataclasses.dataclass(frozen=True, kw_only=True)
class ProxyNCASettings(ProxySetting, TemperatureSetting):
    """`--loss=pnca`."""

    def build(self, context: LossContext) -> MetricLoss:
        """Build ProxyNCA."""
        return losses.ProxyNCALoss(
            context.num_classes,
            context.embedding_dim,
            temperature=self.temperature,
            initializer=self.proxy_initializer,
            normalization=context.normalization,
        )


@dataclasses.dataclass(frozen=True, kw_only=True)
class NormalizedSoftmaxSettings(ProxySetting, TemperatureSetting):
    """`--loss=normsoftmax`."""

    def build(self, context: LossContext) -> MetricLoss:
        """Build the normalised soft-max loss."""
        return losses.NormalizedSoftmaxLoss(
            context.num_classes,
            context.embedding_dim,
            self.temperature,
            self.proxy_initializer,
            normalization=context.normalization,
        )


@dataclasses.dataclass(frozen=True, kw_only=True)
class ProxyAnchorSettings(ProxySetting):
    """`--loss=panchor`."""

    title: ClassVar[str] = "Proxy anchor loss (panchor)"

    panchor_margin: float = setting("panchor: margin (delta)", within=FINITE)
    panchor_scale: float = setting("panchor: scale (alpha)", within=POSITIVE)

    def build(self, context: LossContext) -> MetricLoss:
        """Build the proxy anchor loss."""
        return losses.ProxyAnchorLoss(
            context.num_classes,
            context.embedding_dim,
            margin=self.panchor_margin,
            scale=self.panchor_scale,
            initializer=self.proxy_initializer,
            normalization=context.normalization,
        )


@dataclasses.dataclass(frozen=True, kw_only=True)
class SoftTripleSettings(ProxySetting):
    """`--loss=softtriple`."""

    title: ClassVar[str] = "SoftTriple loss (softtriple)"

    centers_per_class: int = setting("softtriple: centres per class", within=POSITIVE)
    softtriple_scale: float = setting("softtriple: scale of the soft-max over classes (lambda)", within=POSITIVE)
    softtriple_gamma: float = setting("softtriple: temperature of the assignment to centres (gamma)", within=POSITIVE)
    softtriple_tau: float = setting("softtriple: weight of the regulariser of centres (tau)", within=NOT_NEGATIVE)
    softtriple_margin: float = setting("softtriple: margin (delta)", within=FINITE)

    def build(self, context: LossContext) -> MetricLoss:
        """Build the SoftTriple loss."""
        return losses.SoftTripleLoss(
            context.num_classes,
            context.embedding_dim,
            centers_per_class=self.centers_per_class,
            scale=self.softtriple_scale,
            gamma=self.softtriple_gamma,
            tau=self.softtriple_tau,
            margin=self.softtriple_margin,
            initializer=self.proxy_initializer,
            normalization=context.normalization,
        )


@dataclasses.dataclass(frozen=True, kw_only=True)
class ArcFaceSettings(ProxySetting, MarginSetting, ScaleSetting):
    """`--loss=arcface`."""

    def build(self, context: LossContext) -> MetricLoss:
        """Build ArcFace."""
        return losses.ArcFaceLoss(
            context.num_classes,
            context.embedding_dim,
            self.margin,
            self.loss_scale,
            self.proxy_initializer,
            normalization=context.normalization,
        )
