"""The kinds of settings that a loss, a pooling and their composers have."""

from __future__ import annotations

from experiments.settings.method_names import ANCHORED_LOSSES, parse_loss, uses_gsp
from experiments.settings.methods import pair_losses, proxy_losses
from experiments.settings.methods.ccp import AnchorSettings, ProjectionSettings
from experiments.settings.methods.composers import MemorySettings, RhoSettings
from experiments.settings.methods.gsp import TransportPoolingSettings, ZeroShotSettings
from experiments.settings.methods.loss_settings import LossSettings
from experiments.settings.setting import Settings

LOSSES: dict[str, type[LossSettings]] = {
    "c1": pair_losses.CosineContrastiveSettings,
    "c2": pair_losses.ContrastiveSettings,
    "triplet": pair_losses.TripletSettings,
    "ms": pair_losses.MultiSimilaritySettings,
    "pnca": proxy_losses.ProxyNCASettings,
    "panchor": proxy_losses.ProxyAnchorSettings,
    "softtriple": proxy_losses.SoftTripleSettings,
    "margin": pair_losses.MarginLossSettings,
    "npair": pair_losses.NPairSettings,
    "lifted": pair_losses.LiftedStructureSettings,
    "lifted_generalized": pair_losses.GeneralizedLiftedSettings,
    "quadruplet": pair_losses.QuadrupletSettings,
    "angular": pair_losses.AngularSettings,
    "histogram": pair_losses.HistogramSettings,
    "snr": pair_losses.SignalToNoiseSettings,
    "snr_triplet": pair_losses.SignalToNoiseTripletSettings,
    "normsoftmax": proxy_losses.NormalizedSoftmaxSettings,
    "arcface": proxy_losses.ArcFaceSettings,
    "circle": pair_losses.CircleSettings,
}
AROUND: tuple[type[Settings], ...] = (
    RhoSettings,
    MemorySettings,
    ProjectionSettings,
    AnchorSettings,
    TransportPoolingSettings,
    ZeroShotSettings,
)


def parts_of(loss: str, method: str, pooling: str) -> list[type[Settings]]:
    """The kinds of settings that a method has besides those of every run.

    Args:
        loss: its name, with miner, rho and memory.
        method: `plain` or `ccp`.
        pooling: its name.

    Raises:
        InvalidInput: a loss's name of another form; one that there is not has no settings.
    """
    name = parse_loss(loss)
    has_part = {
        RhoSettings: name.switches,
        MemorySettings: name.memory,
        ProjectionSettings: method == "ccp",
        AnchorSettings: method == "ccp" and name.base in ANCHORED_LOSSES,
        TransportPoolingSettings: uses_gsp(pooling),
        ZeroShotSettings: uses_gsp(pooling),
    }
    own = [LOSSES[name.base]] if name.base in LOSSES else []
    return [*own, *(kind for kind in AROUND if has_part[kind])]
