"""Several features in one embedding as methods of a run.

DiVA and its parts, shared features and MIC's groups: the words `heads`, `shared`, `groups`, `intra` and `dance` of a
loss's name add features beside the discriminative one. `Features` combines their tasks; those with settings of their
own are methods, too.
"""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Iterator, Sequence
from typing import Any, Literal

import numpy as np

import milbich_dml
from common import losses
from common.errors import InvalidInput, check_given, invalid
from common.parameters import Count, NotNegative, Positive, TwoOrMore
from common.training import method
from common.training.method import Attached, LossInputs, MakeLoss, Passes, Prepared, Run, Work
from common.training.methods import CONCATENATED, figures_of_slices

HEADS, SHARED, GROUPS, INTRA, DANCE = FEATURES = ("heads", "shared", "groups", "intra", "dance")
DISCRIMINATIVE = "disc"  # the name of the first feature
IN_TURN, JOINT = SCHEDULES = ("in_turn", "joint")
STANDARDIZED, BY_FEATURES, BY_SLICE = GROUP_BY = ("standardized", "features", "slice")
_HEADS = ("disc_2", "disc_3", "disc_4")  # with the first as many as DiVA has
# Added to a seed; append new ones, to preserve older runs.
_DRAWS = {SHARED: 1, INTRA: 2, DANCE: 3, GROUPS: 4, **dict(zip(_HEADS, (5, 6, 7)))}
_MINERS = {  # of negatives and positives
    ("distance", "uniform"): "inter_class",
    ("random", "uniform"): "inter_class_random_negatives",
    ("semi_hard", "uniform"): "inter_class_semi_hard_negatives",
    ("distance", "distance"): "inter_class_distance_positives",
    ("distance", "nearest"): "inter_class_nearest_positives",
}
_FIRST = {STANDARDIZED: "standardized", BY_FEATURES: "none", BY_SLICE: "centred"}  # treatment of features
_IMAGES_OF_INTRA = 3  # an anchor, a positive and a negative of one class


def feature_names(words: Sequence[str]) -> tuple[str, ...]:
    """Return the features that these words of a loss's name stand for, in order."""
    return (DISCRIMINATIVE, *(_HEADS if HEADS in words else words))


def feature_slices(words: Sequence[str], sizes: Sequence[int] | None) -> dict[str, slice]:
    """Return the slice of each of `feature_names` in the embedding; none without several `sizes`."""
    ends = itertools.accumulate(sizes or ())
    return {name: slice(end - size, end) for name, size, end in zip(feature_names(words), sizes or (), ends)}


class Task(method.Method):
    """A feature with settings of its own."""

    word: str

    def task(self, inputs: LossInputs, dim: int, seed: int) -> losses.MetricLoss:
        """Build the loss of its slice."""
        raise NotImplementedError


@dataclasses.dataclass(frozen=True, kw_only=True)
class Features(method.Method):
    """Several features in one embedding, each with its task.

    Reference: Milbich's dissertation, equations 4.11 and 4.12, and algorithm 1.

    Args:
        features: those of `FEATURES` in the loss's name.
        weight: features that are trained jointly: weight of each task beside the discriminative one (alpha) (default:
            the recipe's).
        decorrelation: weight of the adversarial decorrelation from the discriminative one.
        reduction: the correlation is the `mean` or the `sum` over an embedding's components.
    """

    draws_by_run = True

    features: tuple[str, ...]
    weight: NotNegative | None = None
    decorrelation: NotNegative
    reduction: Literal["mean", "sum"]

    def conflicts(self, config: Any) -> Iterator[InvalidInput]:  # noqa: ANN401
        """Yield sizes, schedules and batches that the features cannot have."""
        features, count = self.features, 1 if config.single_encoder else len(feature_names(self.features))
        if config.embedding_dim < count:
            yield InvalidInput(
                f"Invalid --embedding_dim: received {config.embedding_dim} for the {count} features of {config.loss}, "
                f"expected {count} or more: it is the total, which they share. Give more."
            )
        if config.feature_schedule == IN_TURN and len(features) > 1:
            yield InvalidInput(
                f"Invalid --feature_schedule: received in_turn with {config.loss}, expected joint: turns are for "
                "`shared` or `groups` as the only other feature (algorithm 1). Give --feature_schedule=joint."
            )
        if config.feature_schedule == IN_TURN and config.jit_compile:
            yield InvalidInput(
                "--jit_compile cannot compile losses that take turns. Remove it, or give --feature_schedule=joint."
            )
        if INTRA in features:
            yield from _of_intra(config)
        if config.prefix_lengths:
            yield method.with_prefixes(config, "several features, which are slices themselves")

    def feature_sizes(self, dim: int, methods: Sequence[method.Method]) -> tuple[int, ...] | None:
        """Return the components of each feature; None with a single encoder."""
        if any(isinstance(each, SharedFeature) and each.single_encoder for each in methods):
            return None
        return milbich_dml.feature_sizes(dim, len(feature_names(self.features)))

    def wrap(self, make: MakeLoss, inputs: LossInputs) -> MakeLoss:
        """Add the tasks of the other features, each on its slice."""
        tasks = {each.word: each for each in inputs.methods if isinstance(each, Task)}
        in_turn = any(getattr(each, "schedule", JOINT) == IN_TURN for each in tasks.values())

        def task(name: str, dim: int, seed: int) -> losses.MetricLoss:
            if name in _HEADS:
                return make(dim, seed + _DRAWS[name])
            if name == INTRA:
                return losses.MinedLoss(
                    inputs.task_loss(inputs.num_classes, dim), "intra_class", seed=seed + _DRAWS[name]
                )
            return tasks[name].task(inputs, dim, seed + _DRAWS[name])

        def around(dim: int, seed: int) -> losses.MetricLoss:
            of_sizes = self.feature_sizes(dim, inputs.methods)
            if of_sizes is None:  # both tasks on all components: one encoder (Milbich, equation 3.5)
                shared = task(SHARED, dim, seed)
                both = [make(dim, seed), shared]
                if in_turn:
                    return milbich_dml.InTurnLoss(both)
                return losses.WeightedSumLoss(both, [1.0, self.weight or 0.0])
            slices = dict(zip(feature_names(self.features), of_sizes))
            others = {name: task(name, size, seed) for name, size in slices.items() if name != DISCRIMINATIVE}
            return milbich_dml.feature_tasks_loss(
                make(of_sizes[0], seed),
                others,
                of_sizes,
                weight=1.0 if self.weight is None else self.weight,
                decorrelation=self.decorrelation,
                reduction=self.reduction,
                in_turn=in_turn,
            )

        return around

    def attach(self, run: Run) -> Attached:
        """Return the figures of each feature."""
        slices = feature_slices(self.features, run.model.feature_sizes)
        if not slices:
            return Attached()
        whole = {**slices, CONCATENATED: slice(None)}
        return Attached(figures=lambda arrays: {"features": figures_of_slices(arrays, whole)})


def _of_intra(config: Any) -> Iterator[InvalidInput]:  # noqa: ANN401
    if config.loss.startswith("triplet+"):
        yield InvalidInput(
            f"{config.loss}: `intra` over the triplet loss only makes the distances within a class alike, for positive "
            "and negative are drawn in the same way. Expected the margin loss (margin+distance+intra), whose boundary "
            "keeps them apart."
        )
    if config.samples_per_class < _IMAGES_OF_INTRA or not config.sampler_part.of_classes:
        yield InvalidInput(
            f"{config.loss}: `intra` draws triplets within a class, and received "
            f"--samples_per_class={config.samples_per_class} with --sampler={config.sampler}. Expected three or more "
            "images of each class in a batch: give --samples_per_class=4."
        )


@dataclasses.dataclass(frozen=True, kw_only=True)
class SharedFeature(Task):
    """Features shared by classes.

    Reference: Milbich's dissertation, section 3.1.

    Args:
        schedule: shared, groups: the tasks take turns from step to step (`in_turn`, without other features) or are
            added (`joint`).
        single_encoder: both tasks on all components.
        triplets: triplets of three classes (`inter_class`), or of labels that are `permuted` in the batch.
        negatives: inter_class: negatives drawn by inverse density (`distance`), `random` or `semi_hard` (default: the
            recipe's).
        positives: inter_class: positives of another class drawn alike (`uniform`), by `distance`, or the `nearest`
            (default: the recipe's).
    """

    word = SHARED

    schedule: Literal["in_turn", "joint"]
    single_encoder: bool = False
    triplets: Literal["inter_class", "permuted"]
    negatives: Literal["distance", "random", "semi_hard"] | None = None
    positives: Literal["uniform", "distance", "nearest"] | None = None

    @property
    def miner(self) -> str | None:
        """The miner for `MinedLoss`; None if none fits these negatives and positives."""
        if self.triplets == "permuted":
            return "distance_weighted"
        return _MINERS.get((self.negatives or "distance", self.positives or "uniform"))

    def conflicts(self, config: Any) -> Iterator[InvalidInput]:  # noqa: ANN401
        """Yield features and miners that do not go together."""
        if self.single_encoder and (config.loss.features != (SHARED,) or config.decorrelation):
            yield InvalidInput(
                f"--single_encoder puts both tasks on all components, and received {config.loss} with "
                f"--decorrelation={config.decorrelation}. Expected `shared` as the only other feature and "
                "--decorrelation=0: one feature has nothing to be decorrelated from."
            )
        if self.miner is None:
            yield InvalidInput(
                f"--shared_negatives={self.negatives} with --shared_positives={self.positives} is not drawn here. "
                "Expected one of them at its default: --shared_negatives=distance or --shared_positives=uniform."
            )
        if config.loss.startswith("triplet+") and self.negatives == "random":
            yield InvalidInput(
                "--shared_negatives=random over the triplet loss has no gradient where distances differ by less than "
                "the margin, and elsewhere only makes them alike: positive and negative are drawn in the same way. "
                "Give --shared_negatives=distance or semi_hard, or the margin loss."
            )

    def task(self, inputs: LossInputs, dim: int, seed: int) -> losses.MetricLoss:
        """Build the loss of triplets across classes."""
        mined = losses.MinedLoss(inputs.task_loss(inputs.num_classes, dim), check_given("miner", self.miner), seed=seed)
        return milbich_dml.PermutedLabelsLoss(mined, seed) if self.triplets == "permuted" else mined


@dataclasses.dataclass(frozen=True, kw_only=True)
class ImageGroups(Task):
    """MIC's groups of images, across classes.

    Reference: Milbich's dissertation, section 3.1.2.

    Args:
        features: as of `Features`.
        schedule: as of `SharedFeature`.
        num_groups: number of groups that k-means finds.
        epochs: epochs until images are grouped anew.
        by: groups of pooled features that are `standardized` within their class, of the `features` as they are, or of
            the groups' own `slice` of the embedding, after a first round of features less their class's mean.
    """

    word = GROUPS
    has_places = True

    features: tuple[str, ...]
    schedule: Literal["in_turn", "joint"]
    num_groups: TwoOrMore
    epochs: Count
    by: Literal["standardized", "features", "slice"]

    def conflicts(self, config: Any) -> Iterator[InvalidInput]:  # noqa: ANN401
        """Yield several devices."""
        if config.replicas:
            yield method.on_one_device(f"{config.loss}, whose groups are found on one device")

    def check(self, run: Prepared) -> None:
        """Raise `InvalidInput` if there are fewer images than groups."""
        if self.num_groups > len(run.training):
            expected = f"2 to {len(run.training)}, the images that a run learns from"
            raise invalid("--num_groups", received=self.num_groups, expected=expected, fix="Give fewer.")

    def task(self, inputs: LossInputs, dim: int, seed: int) -> losses.MetricLoss:
        """Build the loss of groups, which one-class labels stand for at first."""
        mined = losses.MinedLoss(inputs.task_loss(self.num_groups, dim), "distance_weighted", seed=seed)
        return milbich_dml.GroupLabelsLoss(mined, inputs.num_examples or self.num_groups)

    def attach(self, run: Run) -> Attached:
        """Group the images of the untrained network; return the callback that regroups."""
        found = losses.loss_of_kind(run.model.metric_loss, milbich_dml.GroupLabelsLoss)
        loss = check_given("GroupLabelsLoss", found)
        columns = feature_slices(self.features, run.model.feature_sizes)[GROUPS]
        labels = run.training.labels

        def vectors(number: int) -> np.ndarray:
            """Return a vector of each training image, for a round."""
            if self.by == BY_SLICE and number:
                return run.model.embed(run.inputs(run.training))[:, columns]
            features = run.model.embed(run.inputs(run.training), output="features")
            return milbich_dml.without_classes(features, labels, _FIRST[self.by])

        def figures(embeddings: method.Arrays) -> dict[str, Any]:
            """Return the number of image groups and their mean number of classes."""
            del embeddings
            groups = np.array(loss.groups)
            mean = milbich_dml.classes_per_group(groups, labels)
            return {"features": {GROUPS: {"groups": len(np.unique(groups)), "classes_per_group": mean}}}

        steps = self.epochs * run.batches_per_epoch
        regrouping = milbich_dml.Regrouping(loss, vectors, self.num_groups, steps, run.seed)
        regrouping.group()
        return Attached(callbacks=[regrouping], figures=figures)

    def passes(self, work: Work) -> Passes:
        """Return the images of all groupings."""
        return Passes(work.learned * (1 + work.steps * work.batch_size // (self.epochs * work.learned)))


@dataclasses.dataclass(frozen=True, kw_only=True)
class Dance(Task):
    """DaNCE: features of single images, shared by two views.

    Reference: Milbich's dissertation, section 4.1.1.

    Args:
        queue_batches: batches of negatives in the queue.
        temperature: temperature of the similarities.
        weights: weights of the negatives by distance add up to 1 for each `anchor` (corrected code), over the `batch`
            (code that its authors withdrew), or there are `none`.
    """

    word = DANCE
    num_views = 2

    queue_batches: Count
    temperature: Positive
    weights: Literal["anchor", "batch", "none"]

    def conflicts(self, config: Any) -> Iterator[InvalidInput]:  # noqa: ANN401
        """Yield devices, views and losses that two views do not go with."""
        if config.replicas:
            yield method.on_one_device(
                f"{config.loss}: it would divide each batch between the first and the second views"
            )
        if config.crop == "none" or config.views == 1:
            given = "--crop=none" if config.crop == "none" else "--views=1"
            yield InvalidInput(
                f"{config.loss} compares two views of each image, which {given} makes alike. Expected an augmentation "
                "(--crop) and, with --views or --cached_features, two views or more."
            )
        if config.zero_shot_weight:
            yield InvalidInput(
                f"{config.loss} with --zero_shot_weight={config.zero_shot_weight}: the zero-shot prediction loss is "
                "over the attributes of one view. Give --zero_shot_weight=0."
            )

    def task(self, inputs: LossInputs, dim: int, seed: int) -> losses.MetricLoss:
        """Build the contrast between the two views of each image in the batch."""
        del seed
        return milbich_dml.DistanceAdaptedContrastLoss(
            self.queue_batches * inputs.batch_size,
            dim,
            temperature=self.temperature,
            weights=self.weights,
            normalization=inputs.normalization,
        )

    def passes(self, work: Work) -> Passes:
        """Return the second views."""
        return Passes(work.steps * work.batch_size)
