"""Settings of the losses with proxies, each beside the constructor that it feeds."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, ClassVar

from common import losses
from experiments.settings.methods.loss_settings import LossContext, LossSettings
from experiments.settings.methods.pair_losses import MarginSetting, ScaleSetting
from experiments.settings.number_ranges import FINITE, NOT_NEGATIVE, POSITIVE
from experiments.settings.setting import setting

if TYPE_CHECKING:
    from common.losses import MetricLoss


@dataclasses.dataclass(frozen=True, kw_only=True)
class ProxySetting(LossSettings):
    """The initialisation of proxies."""

    title: ClassVar[str] = "Several losses"
    has_proxies: ClassVar[bool] = True

    proxy_initializer: str = setting("proxies: `he_normal` or `he_normal_over_proxies`")


@dataclasses.dataclass(frozen=True, kw_only=True)
class TemperatureSetting(LossSettings):
    """The temperature of a soft-max over proxies."""

    title: ClassVar[str] = "Several losses"

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
