"""Settings around a loss: cross-batch memory, rho of drawn triplets, regularisers."""

from __future__ import annotations

import dataclasses

from common import losses
from common.errors import InvalidInput
from experiments.settings.setting import FINITE, NOT_NEGATIVE, POSITIVE, SHARE, Settings, setting


@dataclasses.dataclass(frozen=True, kw_only=True)
class MemorySettings(Settings, title="Cross-batch memory (+xbm)"):
    """`+xbm` of a loss's name."""

    xbm_batches: int = setting("xbm: batches in the memory", within=POSITIVE, stored_as="memory_batches")
    xbm_start: int = setting(
        "xbm: update steps before the memory is used", within=NOT_NEGATIVE, stored_as="memory_start"
    )
    xbm_fills_first: bool = setting(
        "xbm: `xbm_start` counts from the moment the memory is full", stored_as="memory_fills_first"
    )
    xbm_holds_batch: bool = setting(
        "xbm: the memory holds the current batch when it is compared", stored_as="memory_holds_batch"
    )


@dataclasses.dataclass(frozen=True, kw_only=True)
class RhoSettings(Settings, title="rho-regularisation (+rho)"):
    """`+rho` of a loss's name: drawn triplets whose negative is sometimes a positive."""

    p_switch: float = setting("rho: how often the positive takes the negative's place, in [0, 1]", within=SHARE)


@dataclasses.dataclass(frozen=True, kw_only=True)
class RegularizerSettings(Settings, title="Regularisers beside the loss"):
    """Regularisers beside any loss; those of weight 0 are left out."""

    koleo_weight: float = setting("weight of KoLeo, which spreads the embeddings of a batch", 0.0, within=NOT_NEGATIVE)
    coding_rate_weight: float = setting(
        "weight of the coding rate of a batch, against collapse", 0.0, within=NOT_NEGATIVE
    )
    coding_rate_precision: float = setting(
        "coding rate: the distortion that is allowed (epsilon)", 0.5, within=POSITIVE
    )
    tcm_weight: float = setting("weight of the threshold-consistent margins (TCM)", 0.0, within=NOT_NEGATIVE)
    tcm_positive_margin: float = setting("tcm: similarity of positives without a term", 0.9, within=FINITE)
    tcm_negative_margin: float = setting("tcm: similarity of negatives without a term", 0.5, within=FINITE)

    def __post_init__(self) -> None:
        super().__post_init__()
        defaults = {field.name: field.default for field in dataclasses.fields(self)}
        for weight, names in _WEIGHTED.items():
            given = [f"--{name}" for name in names if getattr(self, name) != defaults[name]]
            if given and not getattr(self, weight):
                raise InvalidInput(f"{', '.join(given)} would have no effect: --{weight} is 0. Give it, too.")

    def around(self, loss: losses.MetricLoss, normalization: str) -> losses.MetricLoss:
        """Add the regularisers to a loss."""
        terms = (
            (self.koleo_weight, lambda: losses.KoLeoLoss(normalization=normalization)),
            (
                self.coding_rate_weight,
                lambda: losses.CodingRateLoss(self.coding_rate_precision, normalization=normalization),
            ),
            (
                self.tcm_weight,
                lambda: losses.ThresholdConsistentMarginLoss(
                    self.tcm_positive_margin, self.tcm_negative_margin, normalization=normalization
                ),
            ),
        )
        added = [(weight, make()) for weight, make in terms if weight]
        if not added:
            return loss
        return losses.WeightedSumLoss([loss, *(term for _, term in added)], [1.0, *(weight for weight, _ in added)])


_WEIGHTED = {
    "coding_rate_weight": ("coding_rate_precision",),
    "tcm_weight": ("tcm_positive_margin", "tcm_negative_margin"),
}
