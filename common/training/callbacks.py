"""Evaluation callbacks of a run: measure, decide, record, with restorable states."""

from __future__ import annotations

import functools
import math
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any

import numpy as np
import tensorflow as tf

from common.diagnostics import diagnose
from common.errors import InvalidInput, check_non_negative, check_positive, invalid
from common.losses.metric_loss import MetricLoss
from common.ops.normalization import normalize
from common.progress import progress_bar, write_notice
from common.records import ResumableCallback, RunDirectory
from common.retrieval import evaluate_retrieval
from common.training.trackers.tensorboard_tracker import TensorBoardTracker
from common.training.trackers.tracked_run import STOPPED, TrackedRun, curve_values

if TYPE_CHECKING:
    from tensorflow import keras
    from tqdm import tqdm


def logged_metric(logs: dict | None, metric: str, callback: ResumableCallback) -> float:
    """Return a value of the logs that a callback monitors.

    Raises:
        InvalidInput: no earlier callback has measured it.
    """
    logs = logs or {}
    if metric not in logs:
        raise InvalidInput(
            f"{type(callback).__name__} found no {metric!r} in the logs ({', '.join(sorted(logs))}). Put "
            "RetrievalEvaluation, or another callback that measures it, before this one."
        )
    return float(logs[metric])


class RetrievalEvaluation(ResumableCallback):
    """Adds validation metrics of the current weights to each epoch's logs.

    Names are those of `evaluate_retrieval` with a prefix, such as `val_MAP@R`. `EarlyStopping`, `ModelCheckpoint` and
    `ReduceLROnPlateau` come after it in the list of callbacks. Each sample is a query among all others; classes may be
    new to the model. Of several outputs `embeddings` is taken.

    Args:
        x: inputs as an array, or a dictionary of arrays; batches of (inputs, labels), such as a `tf.data.Dataset` or a
            `PyDataset`; or a function without arguments that returns a dictionary of metric names and values.
        y: class ids `[samples]` of arrays.
        batch_size: samples in a pass, of arrays.
        prefix: of the names; None: `val_`, and nothing for a function.

    Raises:
        InvalidInput: labels that are missing or double, or a generator, which could be read only once.

    Examples:
        >>> evaluation = RetrievalEvaluation(embeddings, labels)  # images of your own
        >>> best = tf.keras.callbacks.EarlyStopping("val_MAP@R", mode="max", restore_best_weights=True)
        >>> callbacks = [evaluation, best]  # of `fit`
    """

    def __init__(
        self,
        x: Any,  # noqa: ANN401 (whatever Keras' `predict` takes)
        y: np.ndarray | None = None,
        *,
        batch_size: int = 32,
        prefix: str | None = None,
    ) -> None:
        super().__init__()
        if (y is None) == _is_array(x):
            expected = "None, for batches have their own" if y is not None else "class ids [samples] of the inputs"
            raise invalid("y", received=type(y).__name__, expected=expected)
        if isinstance(x, Iterator):
            raise invalid("x", received="a generator, which is read once", expected="arrays or a tf.data.Dataset")
        self.x, self.y, self.batch_size = x, y, check_positive("batch_size", batch_size)
        self.prefix = prefix if prefix is not None else "" if callable(x) else "val_"

    def on_epoch_end(self, epoch: int, logs: dict | None = None) -> None:
        if logs is None:
            raise InvalidInput("RetrievalEvaluation needs the logs dictionary that Keras' fit passes to callbacks.")
        figures = self.x() if callable(self.x) else self._figures()
        logs.update({f"{self.prefix}{name}": value for name, value in figures.items()})

    def set_model(self, model: keras.Model) -> None:
        super().set_model(model)
        self._call = tf.function(functools.partial(model, training=False), reduce_retracing=True, autograph=False)

    def _figures(self) -> dict[str, float]:
        embeddings: list[np.ndarray] = []
        labels: list[Any] = []
        for inputs, own in labelled_batches(self.x, self.batch_size):
            embeddings.append(np.asarray(_of_embeddings(self._call(inputs)), np.float32))
            labels.append(_of_embeddings(own))
        if self.y is None and any(each is None for each in labels):
            raise invalid("batches of RetrievalEvaluation", received="inputs alone", expected="(inputs, labels)")
        own = _of_embeddings(getattr(self.model, "loss", None))  # of a plain model, whose outputs it normalises itself
        if isinstance(own, MetricLoss):
            embeddings = [normalize(each, own.normalization).numpy() for each in embeddings]
        known = np.concatenate([np.reshape(each, -1) for each in labels]) if self.y is None else self.y
        return evaluate_retrieval(np.concatenate(embeddings), known).as_dict()


def _of_embeddings(parts: Any) -> Any:  # noqa: ANN401
    """Return what belongs to the output `embeddings`, if there are several."""
    return parts.get("embeddings") if isinstance(parts, dict) else parts


def _is_array(x: Any) -> bool:  # noqa: ANN401
    """Check whether inputs are one array or a dictionary of them, not batches."""
    return hasattr(x, "shape") or isinstance(x, dict)


def labelled_batches(x: Any, batch_size: int) -> Iterator[tuple[Any, Any]]:  # noqa: ANN401
    """Yield batches of inputs with their labels, None where there are none.

    Args:
        x: an array or a dictionary of arrays, which is cut; or batches: of inputs, or tuples (inputs, labels).
        batch_size: samples in a batch of an array.
    """
    if _is_array(x):
        count = len(next(iter(x.values())) if isinstance(x, dict) else x)
        for start in range(0, count, batch_size):
            yield tf.nest.map_structure(lambda each: each[start : start + batch_size], x), None  # noqa: B023
        return
    is_sequence = hasattr(x, "__getitem__") and hasattr(x, "__len__") and not isinstance(x, (list, tuple))
    for batch in (x[place] for place in range(len(x))) if is_sequence else x:  # a `PyDataset` has no end
        parts = batch if isinstance(batch, tuple) else (batch,)
        yield parts[0], parts[1] if len(parts) > 1 else None


class EmbeddingDiagnostics(ResumableCallback):
    """Adds diagnostics of the current embeddings to each epoch's logs.

    It warns once of a collapse. It works in any Keras `fit`: `EmbeddingDiagnostics(lambda: (model.predict(images),
    labels))`.

    Reference: see `common.diagnostics.diagnose`, which names the figures.

    Args:
        embed: called without arguments; returns embeddings `[items, dim]` and labels `[items]`.
        clustering: also NMI of k-means, which is slow.
    """

    def __init__(self, embed: Callable[[], tuple[np.ndarray, np.ndarray]], *, clustering: bool = False) -> None:
        super().__init__()
        self.embed, self.clustering = embed, clustering
        self.warned = False

    def on_epoch_end(self, epoch: int, logs: dict | None = None) -> None:
        if logs is None:
            raise InvalidInput("EmbeddingDiagnostics needs the logs dictionary that Keras' fit passes to callbacks.")
        found = diagnose(*self.embed(), clustering=self.clustering)
        logs.update(found.figures)
        if found.warning and not self.warned:
            write_notice(f"warning: {found.warning}")
            self.warned = True

    def state(self) -> dict:
        return {"warned": self.warned}

    def restore(self, state: dict, arrays: list[np.ndarray]) -> None:
        self.warned = state["warned"]


class BestWeights(ResumableCallback):
    """Keeps the best evaluation's weights, and stops after `patience` evaluations without improvement.

    Evaluations before all parts of the method are active do not count. The first one that counts discards what they
    kept. A run that ends earlier keeps the best of them.

    Reference: thesis sections 3.3.2.1 and 5.3.4.1; an improvement must exceed `min_delta` = 1e-5 (published code).

    Args:
        metric: the log entry to maximise.
        patience: evaluations without improvement after which training stops, > 0.
        min_delta: the smallest change that counts, >= 0.
        first_epoch: the first epoch, from 0, that counts.
        is_held: called without arguments at each evaluation, which does not count if it returns true. For parts that
            begin at a moment not known beforehand.
    """

    def __init__(
        self,
        metric: str,
        patience: int,
        min_delta: float = 1e-5,
        first_epoch: int = 0,
        is_held: Callable[[], bool] = lambda: False,
    ) -> None:
        super().__init__()
        self.metric = metric
        self.patience = check_positive("patience", patience)
        self.min_delta = check_non_negative("min_delta", min_delta)
        self.first_epoch = check_non_negative("first_epoch", first_epoch)
        self.is_held = is_held
        self.best, self.best_epoch, self.waited, self.stopped = -math.inf, -1, 0, False
        self._weights: list[np.ndarray] = []
        self._counts = False

    def on_epoch_end(self, epoch: int, logs: dict | None = None) -> None:
        value = logged_metric(logs, self.metric, self)
        counts = epoch >= self.first_epoch and not self.is_held()
        if counts and not self._counts:
            self._counts, self.best = True, -math.inf
        if value > self.best + self.min_delta:
            self.best, self.best_epoch, self.waited = value, epoch, 0
            self._weights = [np.asarray(weight) for weight in self.model.get_weights()]
        elif counts:
            self.waited += 1
            self.stopped = self.waited >= self.patience
        if self.stopped:
            self.model.stop_training = True

    def load_best(self) -> None:
        """Load the best weights into the model, if any evaluation took place."""
        if self._weights:
            self.model.set_weights(self._weights)

    def state(self) -> dict:
        best = None if math.isinf(self.best) else self.best
        seen = {"best": best, "best_epoch": self.best_epoch, "waited": self.waited, "stopped": self.stopped}
        return {**seen, "counts": self._counts}

    def arrays(self) -> list[np.ndarray]:
        return self._weights

    def restore(self, state: dict, arrays: list[np.ndarray]) -> None:
        self.best = -math.inf if state["best"] is None else state["best"]
        self.best_epoch, self.waited, self.stopped = state["best_epoch"], state["waited"], state["stopped"]
        # Checkpoints without this entry kept nothing of an evaluation that did not count.
        self._counts = state.get("counts", state["best"] is not None)
        self._weights = list(arrays)


class OnAverages(ResumableCallback):
    """Calls other callbacks with the averages of the weights in the model.

    Args:
        averaged: a context in which the model has its averages, such as `ProxyRateOptimizer.averaged_weights`.
        callbacks: called in this order, at each evaluation.
    """

    def __init__(
        self, averaged: Callable[[], AbstractContextManager[None]], callbacks: Sequence[ResumableCallback]
    ) -> None:
        super().__init__()
        self.averaged, self.callbacks = averaged, callbacks

    def set_model(self, model: keras.Model) -> None:
        super().set_model(model)
        for callback in self.callbacks:
            callback.set_model(model)

    def on_epoch_end(self, epoch: int, logs: dict | None = None) -> None:
        with self.averaged():
            for callback in self.callbacks:
                callback.on_epoch_end(epoch, logs)


class PlateauSchedule(ResumableCallback):
    """Multiplies the learning rate by `factor` after `patience` evaluations without improvement.

    Reference: thesis sections 3.3.2.1 and 5.3.4.1 ("reduce on plateau, patience 4"); factor .5, min_delta 1e-3,
    cooldown 2 and the floor of 1e-6 are the published code's.

    Args:
        metric: the log entry to maximise.
        patience: evaluations without improvement before a reduction, > 0.
        factor, min_delta, cooldown, min_learning_rate: see above.
    """

    def __init__(
        self,
        metric: str,
        patience: int,
        factor: float = 0.5,
        min_delta: float = 1e-3,
        cooldown: int = 2,
        min_learning_rate: float = 1e-6,
    ) -> None:
        super().__init__()
        self.metric, self.factor, self.min_delta = metric, factor, min_delta
        self.patience = check_positive("plateau_patience", patience)
        self.cooldown, self.min_learning_rate = cooldown, min_learning_rate
        self.best, self.waited, self.cooling = -math.inf, 0, 0
        self._learning_rate: float | None = None  # of the checkpoint: Keras 2's optimisers have no variable for it

    def on_train_begin(self, logs: dict | None = None) -> None:
        if self._learning_rate is not None:
            self.model.optimizer.learning_rate.assign(self._learning_rate)

    def on_epoch_end(self, epoch: int, logs: dict) -> None:
        value, learning_rate = logged_metric(logs, self.metric, self), self.model.optimizer.learning_rate
        logs["learning_rate"] = float(np.asarray(learning_rate))
        self.cooling = max(0, self.cooling - 1)
        if value > self.best + self.min_delta:
            self.best, self.waited = value, 0
        elif self.cooling == 0:
            self.waited += 1
        if self.waited >= self.patience:
            learning_rate.assign(max(self.min_learning_rate, logs["learning_rate"] * self.factor))
            self.waited, self.cooling = 0, self.cooldown
        self._learning_rate = float(np.asarray(learning_rate))

    def state(self) -> dict:
        best = None if math.isinf(self.best) else self.best
        decided = {"best": best, "waited": self.waited, "cooling": self.cooling}
        return decided if self._learning_rate is None else {**decided, "learning_rate": self._learning_rate}

    def restore(self, state: dict, arrays: list[np.ndarray]) -> None:
        self.best = -math.inf if state["best"] is None else state["best"]
        self.waited, self.cooling = state["waited"], state["cooling"]
        self._learning_rate = state.get("learning_rate")  # absent from older checkpoints


class LearningRateRecord(ResumableCallback):
    """Adds the last step's learning rate to the logs.

    For schedules that are part of the update rule.
    """

    def on_epoch_end(self, epoch: int, logs: dict) -> None:
        logs["learning_rate"] = float(np.asarray(self.model.optimizer.learning_rate))


class NotFinite(InvalidInput):
    """A loss or gradient that is NaN or infinite.

    Attributes:
        step: number of the training batch, from 0, warm-up included; see `fit`'s `batches_from`.
    """

    def __init__(self, message: str, step: int) -> None:
        super().__init__(message)
        self.step = step


class MeanLoss(ResumableCallback):
    """Adds an evaluation period's mean loss to the logs; stops if not finite.

    Args:
        steps_per_epoch: steps between two evaluations.
        first_step: number of the first training batch of epoch 0.

    Raises:
        NotFinite: a loss or gradient is not finite; it names the batch. The last checkpoint stays unchanged.
    """

    def __init__(self, steps_per_epoch: int, first_step: int = 0) -> None:
        super().__init__()
        self.steps_per_epoch, self.first_step = steps_per_epoch, first_step
        self._losses: list[float] = []
        self._step = first_step

    def on_epoch_begin(self, epoch: int, logs: dict | None = None) -> None:
        self._losses = []
        self._step = self.first_step + epoch * self.steps_per_epoch

    def on_train_batch_end(self, batch: int, logs: dict) -> None:
        loss = float(logs["loss"])
        if not math.isfinite(loss):
            raise self._error(f"The loss became {loss}", batch)
        if not float(logs.get("gradients_are_finite", 1.0)):
            raise self._error(f"A gradient became NaN or infinite (the loss was {loss:.6g})", batch)
        self._losses.append(loss)

    def on_epoch_end(self, epoch: int, logs: dict) -> None:
        logs.pop("gradients_are_finite", None)
        logs["loss"] = math.fsum(self._losses) / len(self._losses)

    def _error(self, what: str, batch: int) -> NotFinite:
        step = self._step + batch
        return NotFinite(
            f"{what} at training batch {step} (from 0; number {batch + 1} of its evaluation period). The last "
            "checkpoint is kept, from before that. Lower --learning_rate, or look at the loss' margins.",
            step,
        )


class RecordMetrics(ResumableCallback):
    """Appends each evaluation to `metrics.jsonl`, and sends it to the tracker.

    Args:
        run: the folder to write to.
        steps_per_epoch: steps between two evaluations.
        tracked: the tracked run, started; None: TensorBoard's event files in the run's folder.
    """

    def __init__(self, run: RunDirectory, steps_per_epoch: int, tracked: TrackedRun | None = None) -> None:
        super().__init__()
        self.run, self.steps_per_epoch = run, steps_per_epoch
        self._own = TensorBoardTracker(run.path) if tracked is None else None
        if self._own is not None:
            self._own.start()
        self.tracked = tracked or self._own
        self._started = time.monotonic()

    def on_epoch_end(self, epoch: int, logs: dict) -> None:
        step = (epoch + 1) * self.steps_per_epoch
        logs = {name: float(value) for name, value in logs.items()}
        loss, rate = logs.pop("loss"), logs.pop("learning_rate", None)
        seconds = time.monotonic() - self._started
        record = {"step": step, "loss": loss, "validation": logs, "seconds": round(seconds, 3)}
        record = record if rate is None else {**record, "learning_rate": rate}
        self.run.append_metrics(record)
        if self.tracked is not None:
            self.tracked.log(curve_values(record), step)

    def close(self) -> None:
        """Close TensorBoard's file, unless a tracker was given."""
        if self._own is not None:
            self._own.finish(STOPPED)


class Watch(ResumableCallback):
    """Reports each evaluation before its checkpoint, and repeated ones again.

    Args:
        tell: called with the step and the validation metrics; an exception ends the training at once.
        steps_per_epoch: steps between two evaluations.
    """

    def __init__(self, tell: Callable[[int, dict[str, float]], None], steps_per_epoch: int) -> None:
        super().__init__()
        self.tell, self.steps_per_epoch = tell, steps_per_epoch

    def on_epoch_end(self, epoch: int, logs: dict) -> None:
        self.tell((epoch + 1) * self.steps_per_epoch, {name: float(value) for name, value in logs.items()})


class ProgressBar(ResumableCallback):
    """One line: steps, time left, loss, current and best validation metric.

    Args:
        description: the label.
        max_steps, steps_per_epoch: the length of training and of an evaluation period, in steps.
        metric: the log entry to show.
        best: the callback with the best value.
    """

    def __init__(self, description: str, max_steps: int, steps_per_epoch: int, metric: str, best: BestWeights) -> None:
        super().__init__()
        self.description, self.max_steps, self.steps_per_epoch = description, max_steps, steps_per_epoch
        self.metric, self.best = metric, best
        self._bar: tqdm | None = None
        self._postfix: dict[str, str] = {}

    def on_epoch_begin(self, epoch: int, logs: dict | None = None) -> None:
        if self._bar is None:
            done = epoch * self.steps_per_epoch
            self._bar = progress_bar(total=self.max_steps, initial=done, desc=self.description, unit="step")

    def on_train_batch_end(self, batch: int, logs: dict) -> None:
        self._postfix["loss"] = f"{float(logs['loss']):.4f}"
        if self._bar is not None:
            self._bar.set_postfix(self._postfix, refresh=False)
            self._bar.update(1)

    def on_epoch_end(self, epoch: int, logs: dict) -> None:
        self._postfix[self.metric] = f"{logs[self.metric]:.4f}"
        self._postfix["best"] = f"{self.best.best:.4f}"
        if self._bar is not None:
            self._bar.set_postfix(self._postfix)

    def close(self) -> None:
        """End the line; safe to call twice."""
        if self._bar is not None:
            self._bar.close()
            self._bar = None
