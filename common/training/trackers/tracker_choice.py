"""A choice of the program that follows runs, checked before anything starts."""

from __future__ import annotations

import dataclasses
import inspect
import os
from collections.abc import Collection
from typing import Any

from common.training.trackers.mlflow_tracker import MlflowTracker, check_server
from common.training.trackers.tensorboard_tracker import TensorBoardTracker
from common.training.trackers.tracked_run import RunDescription, TrackedRun
from common.training.trackers.wandb_tracker import WandbTracker, check_login

# By the value of `--tracker`. Each gets those of `description`, `folder`, `uri` and `project` that it names.
TRACKERS: dict[str, type[TrackedRun]] = {
    "tensorboard": TensorBoardTracker,
    "mlflow": MlflowTracker,
    "wandb": WandbTracker,
    "none": TrackedRun,
}


def arguments_of(kind: str) -> Collection[str]:
    """Return the names of what a tracker takes: at least those of `TrackedRun`."""
    return {*inspect.signature(TrackedRun).parameters, *inspect.signature(TRACKERS[kind]).parameters}


@dataclasses.dataclass(frozen=True)
class TrackerChoice:
    """A tracker and its place; no result depends on them.

    Attributes:
        kind: one of `TRACKERS`.
        uri: of MLflow's server.
        project: for MLflow (its experiment) and W&B.
    """

    kind: str = "tensorboard"
    uri: str = ""
    project: str = "deep_metric_learning"

    @property
    def takes_pictures(self) -> bool:
        """True if this tracker shows more than curves of runs."""
        return TRACKERS[self.kind]._send_picture is not TrackedRun._send_picture

    def check(self) -> None:
        """Refuse a tracker that cannot follow a run, within seconds.

        Raises:
            InvalidInput: its library is missing, the server does not answer, or there is no login.
        """
        if self.kind == "mlflow":
            check_server(self.uri, self.project)
        if self.kind == "wandb":
            check_login()

    def tracked(self, description: RunDescription, folder: str | os.PathLike) -> TrackedRun:
        """Return the run with its tracker, not started.

        Args:
            description: of the run.
            folder: of the run.
        """
        given: dict[str, Any] = {"description": description, "folder": folder, "uri": self.uri, "project": self.project}
        takes = arguments_of(self.kind)
        return TRACKERS[self.kind](**{name: value for name, value in given.items() if name in takes})


TENSORBOARD = TrackerChoice()  # the default tracker
