"""Settings of several features in one embedding: their tasks and combination."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, ClassVar

from common import losses
from common.errors import invalid
from experiments.settings.setting import NOT_NEGATIVE, POSITIVE, NumberRange, Settings, setting

if TYPE_CHECKING:
    from common.losses import MetricLoss

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
class FeatureSettings(Settings):
    """`+shared`, `+groups`, `+intra` or `+dance` of a loss's name."""

    title: ClassVar[str] = "Several features in one embedding (+shared, +groups, +intra, +dance)"

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

    def around(
        self,
        discriminative: MetricLoss,
        tasks: Mapping[str, MetricLoss],
        sizes: Sequence[int],
        schedule: str | None,
    ) -> MetricLoss:
        """Combine the losses of an embedding with several features.

        Args:
            discriminative: of the first feature.
            tasks: of the others, by their words in the loss's name.
            sizes: components of the features.
            schedule: one of `SCHEDULES`; None: all tasks in each step.
        """
        return losses.feature_tasks_loss(
            discriminative,
            tasks,
            sizes,
            weight=1.0 if self.feature_weight is None else self.feature_weight,
            decorrelation=self.decorrelation,
            reduction=self.decorrelation_reduction,
            in_turn=schedule == IN_TURN,
        )

    def on_one_feature(self, discriminative: MetricLoss, shared: MetricLoss, schedule: str | None) -> MetricLoss:
        """Combine both tasks on all components: one encoder (Milbich, equation 3.5).

        Args:
            discriminative, shared: losses of the whole embedding.
            schedule: one of `SCHEDULES`.
        """
        if schedule == IN_TURN:
            return losses.InTurnLoss([discriminative, shared])
        return losses.WeightedSumLoss([discriminative, shared], [1.0, self.feature_weight or 0.0])


@dataclasses.dataclass(frozen=True, kw_only=True)
class TurnSettings(Settings):
    """`+shared` or `+groups` of a loss's name: a task that may alternate."""

    title: ClassVar[str] = FeatureSettings.title

    feature_schedule: str = setting(
        "shared, groups: the tasks take turns from step to step (`in_turn`, without other features) or are added "
        "(`joint`)",
        choices=SCHEDULES,
    )


@dataclasses.dataclass(frozen=True, kw_only=True)
class SharedSettings(Settings):
    """`+shared` of a loss's name: features shared by classes."""

    title: ClassVar[str] = FeatureSettings.title

    single_encoder: bool = setting("shared: both tasks on all components (default: no)", False, omit_default=True)
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

    def around(self, loss: MetricLoss, seed: int) -> MetricLoss:
        """Wrap `loss` to use triplets across classes.

        Args:
            loss: over pairs or triplets.
            seed: of the draws.
        """
        mined = losses.MinedLoss(loss, self.miner or "inter_class", seed=seed)
        return losses.PermutedLabelsLoss(mined, seed) if self.shared_triplets == "permuted" else mined


@dataclasses.dataclass(frozen=True, kw_only=True)
class GroupSettings(Settings):
    """`+groups` of a loss's name: MIC's groups of images, across classes."""

    title: ClassVar[str] = FeatureSettings.title

    num_groups: int = setting("groups: number of groups that k-means finds", within=NumberRange(2, low_included=True))
    group_epochs: int = setting("groups: epochs until images are grouped anew", within=POSITIVE)
    group_by: str = setting(
        "groups: of pooled features that are `standardized` within their class, of the `features` as they are, or of "
        "the groups' own `slice` of the embedding, after a first round of features less their class's mean",
        choices=GROUP_BY,
    )

    def around(self, loss: MetricLoss, num_examples: int, seed: int) -> MetricLoss:
        """Wrap `loss` to use triplets of groups.

        Args:
            loss: over pairs or triplets, of `num_groups` groups.
            num_examples: images of the training set.
            seed: of the draws.
        """
        return losses.GroupLabelsLoss(losses.MinedLoss(loss, "distance_weighted", seed=seed), num_examples)

    def check(self, num_examples: int) -> None:
        """Raise `InvalidInput` if there are fewer images than groups.

        Args:
            num_examples: images of the training set.
        """
        if self.num_groups > num_examples:
            expected = f"2 to {num_examples}, the images that a run learns from"
            raise invalid("--num_groups", received=self.num_groups, expected=expected, fix="Give fewer.")


@dataclasses.dataclass(frozen=True, kw_only=True)
class DanceSettings(Settings):
    """`+dance` of a loss's name: features of single images, shared by two views."""

    title: ClassVar[str] = FeatureSettings.title

    dance_queue_batches: int = setting("dance: batches of negatives in the queue", within=POSITIVE)
    dance_temperature: float = setting("dance: temperature of the similarities", within=POSITIVE)
    dance_weights: str = setting(
        "dance: weights of the negatives by distance add up to 1 for each `anchor` (corrected code), over the `batch` "
        "(code that its authors withdrew), or there are `none`",
        choices=("anchor", "batch", "none"),
    )

    def build(self, batch_size: int, dim: int, normalization: str) -> MetricLoss:
        """Build the contrast between two views.

        Args:
            batch_size: images in a batch, each of them twice.
            dim: components of the feature.
            normalization: of embeddings.
        """
        return losses.DistanceAdaptedContrastLoss(
            self.dance_queue_batches * batch_size,
            dim,
            temperature=self.dance_temperature,
            weights=self.dance_weights,
            normalization=normalization,
        )
