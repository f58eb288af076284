"""The commands' losses by name, the source of `--loss`, flags and kinds."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator

from experiments.settings.methods import pair_losses, proxy_losses
from experiments.settings.methods.derived import loss_settings
from experiments.settings.methods.late_constructor import late_constructor
from experiments.settings.methods.loss_settings import LossSettings

# Of `common.losses`; their settings are their constructors' parameters: `--NAME_PARAMETER`.
DERIVED = {
    "supcon": "SupervisedContrastiveLoss",
}
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
    **{name: loss_settings(name, late_constructor("common.losses", loss)) for name, loss in DERIVED.items()},
}


class LossNames(Collection[str]):
    """A live view of the names in `LOSSES` that satisfy a predicate, including plug-ins'.

    Args:
        holds: predicate on the losses' settings.
    """

    def __init__(self, holds: Callable[[type[LossSettings]], bool]) -> None:
        self._holds = holds

    def __iter__(self) -> Iterator[str]:
        return (name for name, kind in LOSSES.items() if self._holds(kind))

    def __contains__(self, name: object) -> bool:
        return name in LOSSES and self._holds(LOSSES[str(name)])

    def __len__(self) -> int:
        return sum(1 for _ in self)


PAIR_LOSSES = LossNames(lambda kind: not kind.has_proxies)
PROXY_LOSSES = LossNames(lambda kind: kind.has_proxies)
ANCHORED_LOSSES = LossNames(lambda kind: kind.sees_one_side)
