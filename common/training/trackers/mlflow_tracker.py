"""Runs on an MLflow server; its client mlflow-skinny is enough."""

from __future__ import annotations

import os
import pathlib
import re
import time
from collections.abc import Collection, Mapping
from types import ModuleType

from common.errors import InvalidInput, first_line, invalid
from common.training.trackers.tracked_run import FAILED, FINISHED, STOPPED, RunDescription, TrackedRun

SERVER_VARIABLE = "MLFLOW_TRACKING_URI"
KEY_TAG = "unit_key"
# Defaults: MLflow's own would stall training for minutes, and print addresses.
_DEFAULTS = {
    "MLFLOW_HTTP_REQUEST_TIMEOUT": "20",
    "MLFLOW_HTTP_REQUEST_MAX_RETRIES": "2",
    "MLFLOW_SUPPRESS_PRINTING_URL_TO_STDOUT": "true",
}
_STATUS = {FINISHED: "FINISHED", STOPPED: "KILLED", FAILED: "FAILED"}
_MAX_PARAMETERS = 100  # in one request of MLflow


def mlflow() -> ModuleType:
    """Import the library.

    Raises:
        InvalidInput: it is not installed.
    """
    for name, value in _DEFAULTS.items():
        os.environ.setdefault(name, value)
    try:
        import mlflow as library
    except ImportError as error:
        raise InvalidInput(
            "--tracker=mlflow needs MLflow's client, which is not installed: "
            "pip install 'deep-metric-learning[mlflow]' (in a clone: '.[mlflow]')."
        ) from error
    return library


def check_server(uri: str, project: str) -> None:
    """Raise `InvalidInput` if MLflow is missing, or no server answers.

    Args:
        uri: of the server.
        project: name of the experiment, which may be new.
    """
    library = mlflow()
    tried = {"MLFLOW_HTTP_REQUEST_TIMEOUT": "5", "MLFLOW_HTTP_REQUEST_MAX_RETRIES": "0"}
    before = {name: os.environ[name] for name in tried}
    os.environ.update(tried)
    try:
        library.MlflowClient(tracking_uri=uri).get_experiment_by_name(project)
    except Exception as error:  # of MLflow, of its store, or of the network
        raise invalid(
            f"--tracker_uri (or {SERVER_VARIABLE})",
            received=f"{uri} ({first_line(error)})",
            expected="the address of an MLflow server that answers, such as http://127.0.0.1:5000",
            fix="Start it (mlflow server), or correct the address.",
        ) from error
    finally:
        os.environ.update(before)


class MlflowTracker(TrackedRun):
    """Follows a run as a run of MLflow, in the experiment of the project.

    MLflow's names have no `@`: `MAP@R` is `MAP_at_R` there.

    Args:
        description: of the run.
        folder: of the run.
        uri: of the server.
        project: name of the experiment, made if missing.
    """

    def __init__(self, description: RunDescription, folder: str | os.PathLike, uri: str, project: str) -> None:
        super().__init__(description, folder, f"mlflow {uri} {project}")
        self.uri, self.project = uri, project
        self._client = mlflow().MlflowClient(tracking_uri=uri)
        self._experiment = self._run = ""

    def _send_start(self, key: str) -> Collection[int] | None:
        mlflow().set_tracking_uri(self.uri)
        self._experiment = mlflow().set_experiment(self.project).experiment_id
        found = self._client.search_runs([self._experiment], f"tags.{KEY_TAG} = '{key}'", max_results=1)
        if found:
            self._run, known = found[0].info.run_id, found[0].data.params.keys()
            self._client.update_run(self._run, status="RUNNING")
        else:
            tags = {**self.description.tags, "group": self.description.group, KEY_TAG: key}
            created = self._client.create_run(self._experiment, tags=tags, run_name=self.description.name)
            self._run, known = created.info.run_id, ()
        parameters = {named(name): str(value) for name, value in self.description.parameters.items()}
        missing = [mlflow().entities.Param(name, parameters[name]) for name in sorted(parameters.keys() - known)]
        for start in range(0, len(missing), _MAX_PARAMETERS):
            self._client.log_batch(self._run, params=missing[start : start + _MAX_PARAMETERS])
        return self._known_steps()

    def _known_steps(self) -> set[int]:
        return {point.step for point in self._client.get_metric_history(self._run, "loss")}

    def _send(self, values: Mapping[str, float], step: int) -> None:
        now, metric = int(1000 * time.time()), mlflow().entities.Metric
        metrics = [metric(named(name), value, now, step) for name, value in values.items()]
        self._client.log_batch(self._run, metrics=metrics)

    def _send_result(self, values: Mapping[str, float]) -> None:
        known = self._client.get_run(self._run).data.metrics
        missing = {name: value for name, value in values.items() if named(name) not in known}
        self._send(missing, max(self._known_steps(), default=0))

    def _send_picture(self, path: pathlib.Path) -> None:
        self._client.log_artifact(self._run, os.fspath(path), "pictures")

    def _send_end(self, status: str) -> None:
        self._client.set_terminated(self._run, _STATUS[status])

    def _address(self) -> str:
        if not self.uri.startswith("http"):
            return f"{self.uri}, run {self._run}"
        return f"{self.uri.rstrip('/')}/#/experiments/{self._experiment}/runs/{self._run}"


def named(name: str) -> str:
    """Convert a name for MLflow: letters, digits, `_-./` and spaces.

    Args:
        name: of a curve, a figure or a parameter.
    """
    return re.sub(r"[^\w\-./ ]", "_", name.replace("@", "_at_"), flags=re.ASCII)
