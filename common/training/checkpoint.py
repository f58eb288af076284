"""A run's complete state, in one file of plain arrays."""

from __future__ import annotations

import json
import time

import numpy as np
import tensorflow as tf

from common.errors import InvalidInput, invalid
from common.records import ResumableCallback, RunDirectory
from common.training.embedding_model import EmbeddingModel
from common.training.metric_model import MetricModel

# Of what a checkpoint holds, and of how the commands' steps are rounded: a run that resumes has the figures of one that
# was not stopped. 3: `FusedAdam`. The file's own format is `common.files.FORMAT_VERSION`.
CHECKPOINT_VERSION = 3


class Checkpoint(ResumableCallback):
    """Saves weights, optimiser and callback states every epoch; restores them exactly.

    Batches and augmentation are pure functions of (seed, step), so the input pipeline is not saved.

    Args:
        run: the folder to write to.
        model: the trained model, with its weights and `update` made.
        stateful: the callbacks whose state is saved, in a fixed order.
        steps_per_epoch: steps between two evaluations.
        min_seconds: the shortest time between two saves; 0 saves at every evaluation.
    """

    def __init__(
        self,
        run: RunDirectory,
        model: EmbeddingModel | MetricModel,
        stateful: list[ResumableCallback],
        steps_per_epoch: int,
        min_seconds: float = 0.0,
    ) -> None:
        super().__init__()
        self.run, self.embedding_model, self.stateful = run, model, stateful
        self.steps_per_epoch, self.min_seconds = steps_per_epoch, min_seconds
        self._last_save = time.monotonic()

    def on_epoch_end(self, epoch: int, logs: dict | None = None) -> None:
        ended = self.embedding_model.stop_training
        if ended or time.monotonic() - self._last_save >= self.min_seconds:
            self.save(epochs_done=epoch + 1)

    def save(self, epochs_done: int) -> None:
        """Write the state after `epochs_done` evaluation periods, and keep the previous save.

        The write is atomic.

        Raises:
            InvalidInput: a weight is NaN or infinite; then nothing is written.
        """
        arrays = {}
        for group, values in self._groups().items():
            arrays.update({f"{group}.{index:05d}": _array(value) for index, value in enumerate(values)})
        _refuse_what_is_not_finite(arrays)
        state = {
            "format": CHECKPOINT_VERSION,
            "epochs_done": epochs_done,
            "replicas": self._num_replicas,
            "callbacks": [callback.state() for callback in self.stateful],
        }
        arrays["state"] = np.array(json.dumps(state))
        self.run.write_checkpoint(arrays)
        self._last_save = time.monotonic()

    def restore_latest(self) -> int | None:
        """Restore the last save; return its number of evaluation periods, or `None`."""
        arrays = self.run.read_checkpoint()
        if arrays is None:
            self.run.drop_metrics_after(0)
            return None
        state = self._checked(json.loads(str(arrays.pop("state"))))
        _assign(self.embedding_model.weights, _group(arrays, "weights"), self.run)
        _assign(self.embedding_model.compiled_update.variables, _group(arrays, "optimizer"), self.run)
        for index, (callback, saved) in enumerate(zip(self.stateful, state["callbacks"])):
            callback.restore(saved, _group(arrays, f"callback{index}"))
        self.run.drop_metrics_after(state["epochs_done"] * self.steps_per_epoch)
        return state["epochs_done"]

    def _checked(self, state: dict) -> dict:
        """Return `state` if this version of the code can resume from it."""
        written, expected = (state["format"], len(state["callbacks"])), (CHECKPOINT_VERSION, len(self.stateful))
        if written != expected:
            raise InvalidInput(
                f"The checkpoint in {self.run.path} has version {written[0]} with {written[1]} parts, this version of "
                f"the code reads version {expected[0]} with {expected[1]}. Finish the run with the code that began it, "
                "or delete checkpoint.npz and checkpoint.previous.npz to start it again."
            )
        replicas = state.get("replicas", 1)
        if replicas != self._num_replicas:
            raise invalid(
                f"number of replicas for the checkpoint in {self.run.path}",
                received=self._num_replicas,
                expected=f"the {replicas} that it was written with",
                fix="With others, sums are rounded differently, and a resumed run would not have its figures.",
            )
        return state

    @property
    def _num_replicas(self) -> int:
        return self.embedding_model.distribute_strategy.num_replicas_in_sync

    def _groups(self) -> dict[str, list]:
        groups = {"weights": self.embedding_model.weights, "optimizer": self.embedding_model.compiled_update.variables}
        return groups | {f"callback{index}": callback.arrays() for index, callback in enumerate(self.stateful)}


def _array(value: tf.Variable | np.ndarray) -> np.ndarray:
    """Return the values of a variable (perhaps mirrored) or an array."""
    return value.numpy() if hasattr(value, "numpy") else np.asarray(value)


def _group(arrays: dict[str, np.ndarray], name: str) -> list[np.ndarray]:
    return [arrays[key] for key in sorted(arrays) if key.startswith(f"{name}.")]


def _refuse_what_is_not_finite(arrays: dict[str, np.ndarray]) -> None:
    trained = {name: values for name, values in arrays.items() if name.startswith(("weights.", "optimizer."))}
    bad = [name for name, values in trained.items() if not np.isfinite(values).all()]
    if bad:
        raise InvalidInput(
            f"NaN or infinity in {', '.join(bad[:3])} after a period of finite losses and gradients. "
            "The last checkpoint is kept, from before that. Lower --learning_rate."
        )


def _assign(variables: list, values: list[np.ndarray], run: RunDirectory) -> None:
    shapes = [tuple(variable.shape) for variable in variables]
    if shapes != [value.shape for value in values]:
        raise InvalidInput(
            f"The checkpoint in {run.path} holds weights of other shapes than this model has. Another version of the "
            "code wrote it; delete checkpoint.npz and checkpoint.previous.npz to start this run again."
        )
    for variable, value in zip(variables, values):
        variable.assign(value)
