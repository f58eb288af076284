"""Settings around a loss: cross-batch memory, rho of drawn triplets, self-distillation, regularisers."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

from common import losses
from common.errors import InvalidInput, invalid
from common.parameters import FINITE, NOT_NEGATIVE, POSITIVE, SHARE, NumberRange
from experiments.parts.setting import Settings, setting

_TWO_OR_MORE = NumberRange(2, low_included=True)


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
    xbm_terms: str = setting(
        "xbm: `sum` of the losses over batch and memory, one loss over their `union`, or over the `memory` alone",
        "sum",
        choices=("sum", "union", "memory"),
    )
    xbm_weight: float = setting("xbm: weight of the memory's loss in the sum", 1.0, within=NOT_NEGATIVE)

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.xbm_terms != "sum" and self.xbm_weight != 1.0:
            raise InvalidInput("--xbm_weight would have no effect: --xbm_terms is not `sum`. Remove one of them.")
        if self.xbm_terms == "union" and self.xbm_holds_batch:
            raise InvalidInput("--xbm_terms=union beside --xbm_holds_batch has each image twice. Remove one of them.")


@dataclasses.dataclass(frozen=True, kw_only=True)
class RhoSettings(Settings, title="rho-regularisation (+rho)"):
    """`+rho` of a loss's name: drawn triplets whose negative is sometimes a positive."""

    p_switch: float = setting("rho: how often the positive takes the negative's place, in [0, 1]", within=SHARE)


@dataclasses.dataclass(frozen=True, kw_only=True)
class SelfDistillationSettings(Settings, title="Self-distillation (+s2sd)"):
    """`+s2sd` of a loss's name: larger embeddings in training, which teach the one."""

    s2sd_dims: str = setting("s2sd: sizes of the larger embeddings, separated by commas", "512,1024,1536,2048")
    s2sd_weight: float = setting(
        "s2sd: weight of the distillation from them", 50.0, within=NOT_NEGATIVE, argument="weight"
    )
    s2sd_feature_weight: float = setting(
        "s2sd: weight of the distillation from the pooled features",
        50.0,
        within=NOT_NEGATIVE,
        argument="feature_weight",
    )
    s2sd_temperature: float = setting(
        "s2sd: temperature of the similarities", 1.0, within=POSITIVE, argument="temperature"
    )
    s2sd_start: int = setting(
        "s2sd: update steps before features are distilled", 1000, within=NOT_NEGATIVE, argument="start_step"
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if not all(word.strip().isdecimal() and int(word) for word in self.s2sd_dims.split(",")):
            expected = "numbers greater than 0, separated by commas, such as 512,1024"
            raise invalid("--s2sd_dims", received=self.s2sd_dims, expected=expected)

    def around(
        self, loss_of: Callable[[int, int], losses.MetricLoss], embedding_dim: int, feature_dim: int
    ) -> losses.SelfDistillationLoss:
        """Build the loss of an embedding and of the larger ones.

        Args:
            loss_of: the loss of a number of components, and of a place from 0 on, which makes draws differ.
            embedding_dim: components of the embedding.
            feature_dim: components of the pooled features.
        """
        given = self.arguments()
        dims = [int(word) for word in given.pop("s2sd_dims").split(",")]
        parts = [loss_of(size, place) for place, size in enumerate((embedding_dim, *dims))]
        return losses.SelfDistillationLoss(parts, embedding_dim, feature_dim, dims, **given)


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
    hier_weight: float = setting(
        "weight of HIER, a hierarchy of embeddings by proxies without classes", 0.0, within=NOT_NEGATIVE
    )
    hier_proxies: int = setting("hier: number of proxies", 512, within=_TWO_OR_MORE)
    hier_neighbors: int = setting(
        "hier: related items are among so many nearest of each other, themselves included", 20, within=_TWO_OR_MORE
    )
    hier_triplets: int = setting("hier: triplets of each image and proxy", 50, within=POSITIVE)
    hier_margin: float = setting("hier: margin of the distances to ancestors", 0.1, within=NOT_NEGATIVE)
    hier_temperature: float = setting("hier: temperature of the draws of ancestors", 0.1, within=POSITIVE)
    hier_curvature: float = setting("hier: curvature of the space, without its sign (c)", 0.1, within=POSITIVE)
    hier_radius: float = setting("hier: length of the longest tangent vector", 2.3, within=POSITIVE)

    def __post_init__(self) -> None:
        super().__post_init__()
        defaults = {field.name: field.default for field in dataclasses.fields(self)}
        for weight in (name for name in defaults if name.endswith("_weight")):
            prefix = weight.removesuffix("weight")
            changed = [name for name in defaults if name.startswith(prefix) and getattr(self, name) != defaults[name]]
            if changed and not getattr(self, weight):
                flags = ", ".join(f"--{name}" for name in changed)
                raise InvalidInput(f"{flags} would have no effect: --{weight} is 0. Give it, too.")

    def around(self, loss: losses.MetricLoss, normalization: str, embedding_dim: int, seed: int) -> losses.MetricLoss:
        """Add the regularisers to a loss; the seed is that of their draws."""
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
            (
                self.hier_weight,
                lambda: losses.HIERLoss(
                    *(embedding_dim, self.hier_proxies, self.hier_neighbors, self.hier_triplets, self.hier_margin),
                    *(self.hier_temperature, self.hier_curvature, self.hier_radius, seed),
                    normalization=normalization,
                ),
            ),
        )
        added = [(weight, make()) for weight, make in terms if weight]
        if not added:
            return loss
        return losses.WeightedSumLoss([loss, *(term for _, term in added)], [1.0, *(weight for weight, _ in added)])
