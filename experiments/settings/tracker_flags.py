"""Flags of trackers, and their checks before anything starts."""

from __future__ import annotations

import os
import urllib.parse

from absl import flags

from common.errors import InvalidInput, check_choice, invalid
from common.training.trackers import TENSORBOARD, TRACKERS, TrackerChoice, arguments_of
from common.training.trackers.mlflow_tracker import SERVER_VARIABLE

flags.disclaim_key_flags()  # they belong to the command that asks for them, whose --help lists them

TRACKER_FLAGS = ("tracker", "tracker_uri", "tracker_project")
TRAINS_NOTHING = "--report_only trains nothing. Remove one of them"


def define_tracker_flags() -> None:
    """Define `--tracker` and its location flags."""
    flags.DEFINE_string(
        "tracker",
        None,
        f"What follows each run as it trains: {', '.join(TRACKERS)} (docs/tracking.md). Default: tensorboard, in the "
        "run's folder.",
    )
    flags.DEFINE_string("tracker_uri", None, f"mlflow: address of the server (default: {SERVER_VARIABLE}).")
    flags.DEFINE_string("tracker_project", None, "mlflow, wandb: experiment or project (default: the data set's name).")


def tracker_from_flags(values: flags.FlagValues, dataset: str, trains: bool, because: str) -> TrackerChoice:
    """Return the tracker that the flags choose.

    Raises:
        InvalidInput: a flag without effect, a missing library, a server that does not answer, or a service without
            a login.
    """
    kind = check_choice("--tracker", values.tracker or TENSORBOARD.kind, TRACKERS)
    for name in TRACKER_FLAGS[1:]:
        readers = [each for each in TRACKERS if name.removeprefix("tracker_") in arguments_of(each)]
        if values[name].present and kind not in readers:
            wanted = " or ".join(f"--tracker={one}" for one in readers)
            raise InvalidInput(f"--{name} would have no effect without {wanted}. Add that, or remove --{name}.")
    if values["tracker"].present and not trains:
        raise InvalidInput(f"--tracker={kind} would have no effect: {because}.")
    uri = _server(values.tracker_uri) if kind == "mlflow" else values.tracker_uri or ""
    choice = TrackerChoice(kind, uri, values.tracker_project or dataset)
    choice.check()
    return choice


def given_tracker_flags(values: flags.FlagValues) -> dict[str, object]:
    """Return the tracker flags' values (None: not given) for single-run commands."""
    return {name: values[name].value for name in TRACKER_FLAGS if name in values}


def _server(given: str | None) -> str:
    uri = given or os.environ.get(SERVER_VARIABLE, "")
    if not uri:
        raise InvalidInput(
            f"--tracker=mlflow received no address, expected that of a server: give --tracker_uri, or set "
            f"{SERVER_VARIABLE}."
        )
    if urllib.parse.urlsplit(uri).password:  # it would appear in run folders and logs
        expected = "an address without a password"
        fix = "Set MLFLOW_TRACKING_USERNAME and MLFLOW_TRACKING_PASSWORD instead."
        raise invalid("--tracker_uri", received=uri.rpartition("@")[2], expected=expected, fix=fix)
    return uri
