"""Settings of several features in one embedding: their tasks and combination."""

from __future__ import annotations

import dataclasses

from common.errors import invalid
from common.parameters import NOT_NEGATIVE, POSITIVE, NumberRange
from experiments.parts.setting import Settings, setting

IN_TURN, JOINT = SCHEDULES = ("in_turn", "joint")
STANDARDIZED, BY_FEATURES, BY_SLICE = GROUP_BY = ("standardized", "features", "slice")
_MINERS = {  # of (--shared_negatives, --shared_positives)
    ("distance", "uniform"): "inter_class",
    ("random", "uniform"): "inter_class_random_negatives",
    ("semi_hard", "uniform"): "inter_class_semi_hard_negatives",
    ("distance", "distance"): "inter_class_distance_positives",
    ("distance", "nearest"): "inter_class_nearest_positives",
}


@dataclasses.dataclass(frozen=True, kw_only=True)
class FeatureSettings(Settings, title="Several features in one embedding (+heads, +shared, +groups, +intra, +dance)"):
    """`+heads`, `+shared`, `+groups`, `+intra` or `+dance` of a loss's name."""

    feature_weight: float | None = setting(
        "features that are trained jointly: weight of each task beside the discriminative one (alpha) (default: the "
        "recipe's)",
        None,
        within=NOT_NEGATIVE,
    )
    decorrelation: float = setting(
        "features: weight of the adversarial decorrelation from the discriminative one", within=NOT_NEGATIVE
    )
    decorrelation_reduction: str = setting(
        "features: the correlation is the `mean` or the `sum` over an embedding's components", choices=("mean", "sum")
    )


@dataclasses.dataclass(frozen=True, kw_only=True)
class TurnSettings(Settings, title=FeatureSettings.title):
    """`+shared` or `+groups` of a loss's name: a task that may alternate."""

    feature_schedule: str = setting(
        "shared, groups: the tasks take turns from step to step (`in_turn`, without other features) or are added "
        "(`joint`)",
        choices=SCHEDULES,
    )


@dataclasses.dataclass(frozen=True, kw_only=True)
class SharedSettings(Settings, title=FeatureSettings.title):
    """`+shared` of a loss's name: features shared by classes."""

    single_encoder: bool = setting("shared: both tasks on all components", False)
    shared_triplets: str = setting(
        "shared: triplets of three classes (`inter_class`), or of labels that are `permuted` in the batch",
        choices=("inter_class", "permuted"),
    )
    shared_negatives: str | None = setting(
        "shared, inter_class: negatives drawn by inverse density (`distance`), `random` or `semi_hard` (default: the "
        "recipe's)",
        None,
        choices=("distance", "random", "semi_hard"),
    )
    shared_positives: str | None = setting(
        "shared, inter_class: positives of another class drawn alike (`uniform`), by `distance`, or the `nearest` "
        "(default: the recipe's)",
        None,
        choices=("uniform", "distance", "nearest"),
    )

    @property
    def miner(self) -> str | None:
        """The miner for `common.losses.MinedLoss`; None if none fits these negatives and positives."""
        if self.shared_triplets == "permuted":
            return "distance_weighted"
        return _MINERS.get((self.shared_negatives or "distance", self.shared_positives or "uniform"))


@dataclasses.dataclass(frozen=True, kw_only=True)
class GroupSettings(Settings, title=FeatureSettings.title):
    """`+groups` of a loss's name: MIC's groups of images, across classes."""

    num_groups: int = setting("groups: number of groups that k-means finds", within=NumberRange(2, low_included=True))
    group_epochs: int = setting("groups: epochs until images are grouped anew", within=POSITIVE)
    group_by: str = setting(
        "groups: of pooled features that are `standardized` within their class, of the `features` as they are, or of "
        "the groups' own `slice` of the embedding, after a first round of features less their class's mean",
        choices=GROUP_BY,
    )

    def check(self, num_examples: int) -> None:
        """Raise `InvalidInput` if there are fewer images than groups."""
        if self.num_groups > num_examples:
            expected = f"2 to {num_examples}, the images that a run learns from"
            raise invalid("--num_groups", received=self.num_groups, expected=expected, fix="Give fewer.")


@dataclasses.dataclass(frozen=True, kw_only=True)
class DanceSettings(Settings, title=FeatureSettings.title):
    """`+dance` of a loss's name: features of single images, shared by two views."""

    dance_queue_batches: int = setting("dance: batches of negatives in the queue", within=POSITIVE)
    dance_temperature: float = setting("dance: temperature of the similarities", within=POSITIVE)
    dance_weights: str = setting(
        "dance: weights of the negatives by distance add up to 1 for each `anchor` (corrected code), over the `batch` "
        "(code that its authors withdrew), or there are `none`",
        choices=("anchor", "batch", "none"),
    )
