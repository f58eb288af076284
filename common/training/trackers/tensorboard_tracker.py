"""TensorBoard's event files, in the run's own folder."""

from __future__ import annotations

import os
import pathlib
from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING

from common.training.trackers.tracked_run import RunDescription, TrackedRun

if TYPE_CHECKING:
    import tensorflow as tf


class TensorBoardTracker(TrackedRun):
    """Writes the curves into `tensorboard/events.out.tfevents...`, the default.

    The folder's JSON files hold configuration and result. Each process that works on a run adds a file, without the
    steps of earlier files.

    Args:
        folder: of the run.
        description: of the run.
    """

    def __init__(self, folder: str | os.PathLike, description: RunDescription | None = None) -> None:
        super().__init__(description or RunDescription(pathlib.Path(folder).name), folder)
        self._events = self.folder / "tensorboard"
        self._writer: tf.summary.SummaryWriter | None = None

    def _send_start(self, key: str) -> Collection[int] | None:
        return {step for path in sorted(self._events.glob("events.out.tfevents*")) for step in _steps_in(path)}

    def _send(self, values: Mapping[str, float], step: int) -> None:
        import tensorflow as tf  # late: flags need this module

        if self._writer is None:
            self._writer = tf.summary.create_file_writer(str(self._events))
        with self._writer.as_default():
            for name, value in values.items():
                tf.summary.scalar(name, value, step)
        self._writer.flush()

    def _send_end(self, status: str) -> None:
        if self._writer is not None:
            self._writer.close()
            self._writer = None


def _steps_in(path: pathlib.Path) -> set[int]:
    """Return the steps with values, up to the end of truncated files."""
    import tensorflow as tf

    steps = set()
    try:
        for record in tf.data.TFRecordDataset(str(path)).as_numpy_iterator():
            event = tf.compat.v1.Event.FromString(record)
            if event.HasField("summary"):
                steps.add(int(event.step))
    except tf.errors.DataLossError:
        return steps
    return steps
