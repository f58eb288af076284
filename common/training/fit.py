"""Training in a run directory: warm-up, evaluations, early stopping, exact resume."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence

import tensorflow as tf

from common.errors import invalid
from common.ops.unfinished_start import warn_of_unfinished_starts
from common.records import ResumableCallback, RunDirectory
from common.training.callbacks import (
    BestWeights,
    MeanLoss,
    OnAverages,
    PlateauSchedule,
    ProgressBar,
    RecordMetrics,
    RetrievalEvaluation,
    Watch,
)
from common.training.checkpoint import Checkpoint
from common.training.embedding_model import EmbeddingModel
from common.training.optimizers import GradientTransform, ProxyRateOptimizer
from common.training.trackers import TrackedRun


@dataclasses.dataclass(frozen=True)
class TrainingSchedule:
    """Lengths of training and warm-up, and the times of evaluations and checkpoints.

    Attributes:
        max_steps: the most update steps, rounded up to a multiple of `steps_per_evaluation`.
        steps_per_evaluation: update steps between two validations.
        patience: validations without improvement after which training stops.
        warm_up_steps: update steps of the head and the losses alone, before the first evaluation period.
        warm_up_trains_all: whether the warm-up trains the whole network, and differs only by its own optimiser.
        plateau_patience: validations without improvement after which the learning rate is halved; 0 keeps it constant.
        monitor: the validation metric to maximise.
        selection_start: validations up to this update step count neither for selection nor for patience, like those at
            which an extra callback `holds_selection`.
        checkpoint_seconds: the shortest time between two checkpoints; 0 saves at every validation.
    """

    max_steps: int
    steps_per_evaluation: int
    patience: int
    warm_up_steps: int = 0
    warm_up_trains_all: bool = False
    plateau_patience: int = 0
    monitor: str = "MAP@R"
    selection_start: int = 0
    checkpoint_seconds: float = 30.0

    @property
    def max_epochs(self) -> int:
        """The number of evaluation periods in `max_steps`, rounded up."""
        return -(-self.max_steps // self.steps_per_evaluation)


def fit(
    model: EmbeddingModel,
    batches_from: Callable[[int], tf.data.Dataset],
    evaluate: Callable[[], dict[str, float]],
    run: RunDirectory,
    schedule: TrainingSchedule,
    make_update: Callable[[], ProxyRateOptimizer],
    gradient_transforms: Sequence[GradientTransform] = (),
    extra_callbacks: Sequence[ResumableCallback] = (),
    description: str = "training",
    watch: Callable[[int, dict[str, float]], None] | None = None,
    jit_compile: bool = False,
    tracked: TrackedRun | None = None,
    renews_batches: bool = False,
) -> dict:
    """Train `model` until the schedule ends, then load its best weights.

    A run stopped at any moment resumes from its last checkpoint, with the same figures as without the stop: batches and
    augmentation are functions of the step, and the checkpoint holds everything else. Averages of the weights, if the
    optimiser keeps any, are evaluated and selected; other callbacks see the weights themselves.

    Args:
        model: with all weights made (`build_from_batch`).
        batches_from: returns the endless training batches from a step on; warm-up steps count as steps 0, 1, ...
        evaluate: returns the validation metrics of the model's current weights.
        run, schedule, watch, tracked: the destinations of metrics; see `TrainingSchedule`, `Watch` and `RecordMetrics`.
        make_update: makes a fresh optimiser (the warm-up has its own).
        gradient_transforms: callables `(gradients, variables) -> gradients`.
        extra_callbacks: called after each validation, before its record; their state is part of the checkpoint.
        description: the progress bar's label.
        jit_compile: compile the training step with XLA.
        renews_batches: call `batches_from` for each evaluation period, because batches follow the weights at its start.

    Returns:
        `{"best": {"step": ..., metric: ...}, "steps": update steps made after warm-up}`.

    Raises:
        InvalidInput: a model on several hosts, or as in `check_devices`.
        NotFinite: a loss or gradient is NaN or infinite; it names the batch. The last checkpoint is kept.
    """
    best = _best_weights(schedule, extra_callbacks)
    stateful = _stateful_callbacks(best, schedule, extra_callbacks)
    compile_again = _compiler(model, make_update, gradient_transforms, jit_compile)
    compile_again()
    checkpoint = Checkpoint(run, model, stateful, schedule.steps_per_evaluation, schedule.checkpoint_seconds)
    epochs_done = checkpoint.restore_latest()
    if epochs_done is None:
        epochs_done = 0
        if schedule.warm_up_steps:
            compile_again(warming_up=not schedule.warm_up_trains_all)
            _warm_up(model, batches_from, schedule)
            compile_again()
            checkpoint.save(epochs_done=0)
    steps = schedule.steps_per_evaluation
    is_over = any(callback.stopped for callback in stateful)
    if not is_over and epochs_done < schedule.max_epochs:
        mean_loss = MeanLoss(steps, schedule.warm_up_steps)
        shown = _showing_callbacks(description, schedule, best, RecordMetrics(run, steps, tracked), watch)
        selection = OnAverages(model.compiled_update.averaged_weights, [RetrievalEvaluation(evaluate), best])
        others = [callback for callback in stateful if callback is not best]
        callbacks = [mean_loss, selection, *others, *shown, checkpoint]
        epochs_done = _run_epochs(model, batches_from, schedule, epochs_done, callbacks, renews_batches)
    best.set_model(model)  # a run that was over before this call has not set it
    best.load_best()
    warn_of_unfinished_starts(model)
    return {"best": {"step": (best.best_epoch + 1) * steps, schedule.monitor: best.best}, "steps": epochs_done * steps}


def _refuse_several_hosts(model: EmbeddingModel) -> None:
    """Refuse several hosts, since each would write the same run directory."""
    if isinstance(model.distribute_strategy, tf.distribute.MultiWorkerMirroredStrategy):
        expected = "one host, with one device or a MirroredStrategy"
        fix = "Several hosts train a MetricModel: fit_on_hosts (docs/devices.md)."
        raise invalid("strategy of fit", received="MultiWorkerMirroredStrategy", expected=expected, fix=fix)


def _compiler(
    model: EmbeddingModel,
    make_update: Callable[[], ProxyRateOptimizer],
    gradient_transforms: Sequence[GradientTransform],
    jit_compile: bool,
) -> Callable[..., None]:
    """Return a function that compiles the model with a fresh optimiser.

    It serves training and warm-up.
    """
    _refuse_several_hosts(model)

    def compile_again(warming_up: bool = False) -> None:
        with model.distribute_strategy.scope():
            update = make_update()
        model.compile_training(update, gradient_transforms, warming_up=warming_up, jit_compile=jit_compile)

    return compile_again


def _showing_callbacks(
    description: str,
    schedule: TrainingSchedule,
    best: BestWeights,
    records: RecordMetrics,
    watch: Callable[[int, dict[str, float]], None] | None,
) -> list[ResumableCallback]:
    """Return the reporting callbacks: the progress bar, the records, the watcher."""
    steps = schedule.steps_per_evaluation
    progress = ProgressBar(description, schedule.max_steps, steps, schedule.monitor, best)
    return [progress, records, *([Watch(watch, steps)] if watch else [])]


def _stateful_callbacks(
    best: BestWeights, schedule: TrainingSchedule, extra_callbacks: Sequence[ResumableCallback]
) -> list[ResumableCallback]:
    """Return the callbacks with a state in the checkpoint, in its order."""
    plateau = [PlateauSchedule(schedule.monitor, schedule.plateau_patience)] if schedule.plateau_patience else []
    return [best, *plateau, *extra_callbacks]


def _best_weights(schedule: TrainingSchedule, extra_callbacks: Sequence[ResumableCallback]) -> BestWeights:
    return BestWeights(
        schedule.monitor,
        schedule.patience,
        first_epoch=schedule.selection_start // schedule.steps_per_evaluation,
        is_held=lambda: any(callback.holds_selection for callback in extra_callbacks),
    )


def _run_epochs(
    model: EmbeddingModel,
    batches_from: Callable[[int], tf.data.Dataset],
    schedule: TrainingSchedule,
    epochs_done: int,
    callbacks: list,
    renews_batches: bool,
) -> int:
    """Continue after `epochs_done` evaluation periods; return their final number."""
    is_over = False
    try:
        while not is_over:
            history = model.fit(
                batches_from(schedule.warm_up_steps + epochs_done * schedule.steps_per_evaluation),
                epochs=epochs_done + 1 if renews_batches else schedule.max_epochs,
                initial_epoch=epochs_done,
                steps_per_epoch=schedule.steps_per_evaluation,
                callbacks=callbacks,
                verbose=0,
                shuffle=False,
            )
            epochs_done = history.epoch[-1] + 1
            is_over = model.stop_training or epochs_done >= schedule.max_epochs
    finally:
        for callback in callbacks:
            callback.close()
    return epochs_done


def _warm_up(
    model: EmbeddingModel,
    batches_from: Callable[[int], tf.data.Dataset],
    schedule: TrainingSchedule,
) -> None:
    model.fit(
        batches_from(0),
        epochs=1,
        steps_per_epoch=schedule.warm_up_steps,
        callbacks=[MeanLoss(schedule.warm_up_steps)],
        shuffle=False,
        verbose=0,
    )
