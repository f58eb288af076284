"""A choice of the program that follows runs, checked before anything starts."""

from __future__ import annotations

import dataclasses
import os

from common.training.trackers.mlflow_tracker import MlflowTracker, check_server
from common.training.trackers.tensorboard_tracker import TensorBoardTracker
from common.training.trackers.tracked_run import RunDescription, TrackedRun
from common.training.trackers.wandb_tracker import WandbTracker, check_login

TRACKERS = ("tensorboard", "mlflow", "wandb", "none")


@dataclasses.dataclass(frozen=True)
class TrackerChoice:
    """A tracker and its place; no result depends on them.

    Attributes:
        kind: one of `TRACKERS`.
        uri: of the server, for MLflow.
        project: for MLflow (its experiment) and W&B.
    """

    kind: str = "tensorboard"
    uri: str = ""
    project: str = "deep_metric_learning"

    @property
    def takes_pictures(self) -> bool:
        """True if this tracker shows more than curves of runs."""
        return self.kind in ("mlflow", "wandb")

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
        if self.kind == "mlflow":
            return MlflowTracker(description, folder, self.uri, self.project)
        if self.kind == "wandb":
            return WandbTracker(description, folder, self.project)
        return (
            TensorBoardTracker(folder, description) if self.kind == "tensorboard" else TrackedRun(description, folder)
        )


TENSORBOARD = TrackerChoice()  # the default tracker
