"""Methods: what is done around a metric loss, in hooks that a trainer calls.

A method is one class, such as `ccp_dml.Method`: its constructor has the hyper-parameters, and it overrides the hooks
that it needs. It is made before TensorFlow is imported and belongs to no run; what a run makes of it, `attach` returns.
"""

from __future__ import annotations

import pathlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import numpy as np

from common.errors import InvalidInput

if TYPE_CHECKING:
    import tensorflow as tf

    from common.data import EvaluationInputs, Examples, ImageTransform
    from common.losses import MetricLoss
    from common.records import ResumableCallback
    from common.training.embedding_model import EmbeddingModel
    from common.training.optimizers import GradientTransform

Arrays = Mapping[str, np.ndarray]


class Prepared(Protocol):
    """A run before its model is made, as far as methods may use it.

    Attributes:
        training: the images that it learns from, labelled from 0.
        queries: the images that it validates on.
        watched: the training images that `Method.hold_back` keeps from the loss.
        inputs: of images, as evaluation reads them.
        augmentation: of training images.
        metric: of validation, which decides.
        max_steps: most update steps.
        batches_per_epoch: of the sampler.
        seed: of the run.
    """

    training: Examples
    queries: Examples
    watched: Examples | None
    inputs: EvaluationInputs
    augmentation: ImageTransform
    metric: str
    max_steps: int
    batches_per_epoch: int
    seed: int


class Run(Prepared, Protocol):
    """A run before its first step.

    Attributes:
        model: with all weights made.
        folder: of the run.
        validated_before: `metric` at each validation of the run whose network this one begins with; empty without one.
    """

    model: EmbeddingModel
    folder: pathlib.Path
    validated_before: Sequence[float]

    def embed_test(self) -> np.ndarray:
        """Return the present embeddings of the test images, `[images, dim]`."""

    def measured(self) -> dict[str, dict[str, float]]:
        """Return the present weights' metrics of the `validation` and the `test` images."""


class Attached(NamedTuple):
    """What a method adds to a run.

    Attributes:
        transforms: of gradients, in order; weight decay and clipping come after them.
        callbacks: called after validation has written its metrics.
        rates: variables that learn at another rate, with its factor.
        settle: called once the model has its best weights; may change them, before anything is measured or kept.
        figures: called with the test embeddings of the run's weights; returns entries of the result.
    """

    transforms: Sequence[GradientTransform] = ()
    callbacks: Sequence[ResumableCallback] = ()
    rates: Sequence[tuple[tf.Variable, float]] = ()
    settle: Callable[[], object] = lambda: None
    figures: Callable[[Arrays], dict[str, Any]] = lambda embeddings: {}


class LossInputs(NamedTuple):
    """What a run gives its losses beside their own settings.

    Attributes:
        num_classes: training classes.
        num_examples: training images; None: not known yet.
        num_channels: components of the pooled features.
        batch_size: images in a batch.
        normalization: of embeddings and proxies, see `EmbeddingModel`.
        metric: of validation, which decides.
        methods: all of the run.
        task_loss: the loss of a further task, for a number of classes and of components: that of the run if triplets
            suit it.
    """

    num_classes: int
    num_examples: int | None
    num_channels: int
    batch_size: int
    normalization: str
    metric: str
    methods: tuple[Method, ...]
    task_loss: Callable[[int, int], MetricLoss]


MakeLoss = Callable[[int, int], "MetricLoss"]  # of an embedding's size and of a seed


class Work(NamedTuple):
    """How much a run does, for estimates of its duration."""

    steps: int
    batch_size: int
    steps_per_evaluation: int
    learned: float  # images that it learns from
    classes: float  # of these images


class Passes(NamedTuple):
    """Images that a method adds to a run, for estimates of its duration."""

    embedded: float = 0.0
    evaluated: float = 0.0  # embedded, with retrieval figures of them


class Final(NamedTuple):
    """Choice of the folds for a run on all training classes."""

    steps: int  # all of that run
    chosen: str  # meaning of these steps, in words
    arguments: Mapping[str, Any]  # of the method's constructor


def whole_median(steps: Sequence[float], period: int) -> int:
    """Return the median of numbers of steps, rounded up to whole validations."""
    return int(-(-np.median(steps) // period) * period)


class Method:
    """A method without any effect: the hooks and traits to override.

    Attributes:
        num_views: how often each image is in its batch.
        has_places: whether labels of a batch also include the training images' indices.
        draws_by_run: whether the losses draw by the seed of the run, not by the one seed of all runs.
        distils: whether it teaches by larger embeddings or by pooled features, which one linear layer has to follow.
        relative_cost: of a training step, over one without the method.
    """

    num_views = 1
    has_places = False
    draws_by_run = False
    distils = False
    relative_cost = 1.0

    def conflicts(self, config: Any) -> Iterator[InvalidInput]:  # noqa: ANN401  # settings of any run
        """Yield what the settings of a run exclude."""
        del config
        yield from ()

    def check(self, run: Prepared) -> None:
        """Raise `InvalidInput` if it cannot train on a run's labels."""

    def check_batches(self, class_places: np.ndarray | None) -> None:
        """Raise `InvalidInput` for places of classes in a batch that it cannot use."""

    def hold_back(self, labels: np.ndarray, seed: int) -> tuple[np.ndarray, np.ndarray] | None:
        """Return the indices of learned and of watched images; None: all are learned from."""
        del labels, seed
        return None

    def feature_sizes(self, dim: int, methods: Sequence[Method]) -> tuple[int, ...] | None:
        """Return the components of each feature of an embedding; None for a single feature."""
        del dim, methods
        return None

    def wrap(self, make: MakeLoss, inputs: LossInputs) -> MakeLoss:
        """Return the constructor of a loss around another."""
        del inputs
        return make

    def attach(self, run: Run) -> Attached:
        """Return what it adds to a run."""
        del run
        return Attached()

    def passes(self, work: Work) -> Passes:
        """Return the additional images of a run."""
        del work
        return Passes()

    def final(self, rows: Sequence[Mapping[str, Any]], period: int) -> Final | None:
        """Return the folds' choice for a run on all training classes.

        Args:
            rows: of finished runs, one a fold, with `best_step` and with `extras`: what methods add to results.
            period: steps between validations.

        Returns:
            None for the median of the selected steps, without other arguments.
        """
        del rows, period
        return None


def merge(result: dict[str, Any], figures: Mapping[str, Any]) -> dict[str, Any]:
    """Add entries to a result, dictionary by dictionary; return it."""
    for name, value in figures.items():
        result[name] = merge(dict(result.get(name, {})), value) if isinstance(value, Mapping) else value
    return result


def with_prefixes(config: Any, what: str) -> InvalidInput:  # noqa: ANN401
    """Refuse trained prefixes of the embedding beside a method."""
    return InvalidInput(
        f"--matryoshka={config.matryoshka} does not go with {config.loss}: {what}. Remove one of the two."
    )


def on_one_device(what: str) -> InvalidInput:
    """Refuse several devices beside a method."""
    return InvalidInput(f"--strategy=mirrored does not go with {what}. Remove --strategy and --replicas.")
