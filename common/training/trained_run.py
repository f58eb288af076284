"""A run in its directory, from the check for a result to the result."""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Callable, Sequence

import numpy as np
import tensorflow as tf

from common.errors import check_given
from common.records import ResumableCallback, RunDirectory, TrainingCost
from common.training.embedding_model import EmbeddingModel
from common.training.fit import TrainingSchedule, fit
from common.training.optimizers import ProxyRateOptimizer
from common.training.trackers import TrackedRun
from common.training.training_session import training_session


@dataclasses.dataclass(frozen=True)
class Training:
    """A run before its first step: the inputs of `fit`, and its report.

    Attributes:
        model: with all weights made (`build_from_batch`).
        batches_from, evaluate, schedule, make_update, gradient_transforms, description, jit_compile,
            renews_batches: see `fit`.
        figures: called with the result of `fit`, once the model has its best weights; returns further entries of the
            result, and the embeddings of the test set.
        cost: with a running clock; the last of the callbacks.
        callbacks: see `extra_callbacks` of `fit`.
        deviations: of the data from the official ones.
        whole: the model to save, if `model` is only its upper part; None: `model`.
        watch: see `fit`.
    """

    model: EmbeddingModel
    batches_from: Callable[[int], tf.data.Dataset]
    evaluate: Callable[[], dict[str, float]]
    schedule: TrainingSchedule
    make_update: Callable[[], ProxyRateOptimizer]
    figures: Callable[[dict], tuple[dict, dict[str, np.ndarray]]]
    cost: TrainingCost
    gradient_transforms: Sequence[Callable] = ()
    callbacks: Sequence[ResumableCallback] = ()
    description: str = "training"
    deviations: Sequence[str] = ()
    whole: EmbeddingModel | None = None
    watch: Callable[[int, dict[str, float]], None] | None = None
    jit_compile: bool = False
    renews_batches: bool = False


def train_in(run: RunDirectory, seed: int, prepare: Callable[[], Training], tracked: TrackedRun | None = None) -> dict:
    """Train or resume, and write the result; only read a finished run.

    Args:
        run: the folder.
        seed: of all randomness that is no function of the step.
        prepare: makes the model and everything else, in a fresh session with this seed.
        tracked: the tracked run; None: TensorBoard's event files in the folder.

    Returns:
        The result as `RunDirectory.read_result` gives it: `validation`, `steps`, `seed`, `deviations`, the cost, and
        the training's own `figures`.

    Raises:
        NotFinite: see `fit`.
    """
    finished = run.read_result()
    if finished is not None:
        return finished
    with training_session(seed):
        training = prepare()
        with contextlib.nullcontext() if tracked is None else tracked.followed():
            _train(run, seed, training, tracked)
        result = check_given("result", run.read_result())
    if tracked is not None:
        tracked.end(result)
    return result


def _train(run: RunDirectory, seed: int, training: Training, tracked: TrackedRun | None) -> None:
    """Train and write the result."""
    history = fit(
        training.model,
        training.batches_from,
        training.evaluate,
        run,
        training.schedule,
        training.make_update,
        training.gradient_transforms,
        extra_callbacks=[*training.callbacks, training.cost],
        description=training.description,
        watch=training.watch,
        jit_compile=training.jit_compile,
        tracked=tracked,
        renews_batches=training.renews_batches,
    )
    figures, embeddings = training.figures(history)
    result = {
        "validation": {"best": history["best"]},
        "steps": history["steps"],
        "seed": seed,
        "deviations": list(training.deviations),
        **figures,
        **training.cost.as_dict(),
    }
    weights = (training.model if training.whole is None else training.whole).get_weights()
    run.write_result(result, embeddings, weights)
