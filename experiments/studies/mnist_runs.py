"""Runs on MNIST in the plane, by budget: trained, and recorded as rows.

Recorded runs are outside any protocol; seeds are repeats.
"""

from __future__ import annotations

import dataclasses
import hashlib
import pathlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from common import data
from common.data import Dataset
from common.records import RunDirectory
from experiments import reports
from experiments.process.exit_code import import_tensorflow
from experiments.reports import UnitRun
from experiments.rows.fair_rows import rows_with
from experiments.rows.rows import Extras
from experiments.rows.store import RecordedMethod, StudyRows
from experiments.studies.mnist_report import (
    State,
    draw_states,
    drawn_digits,
    problems_table,
    snapshot_of,
    states_of,
)
from experiments.studies.mnist_settings import MnistSettings


def as_long_as(runs: Sequence[UnitRun], settings: MnistSettings, repeat: int) -> MnistSettings:
    """Give fixed proxies as many steps as CCP with the same seed, if trained."""
    steps = [run.measured["steps"] for run in runs if (run.config["anchors"], run.repeat) == ("proxies", repeat)]
    if settings.anchors != "fixed proxies" or not steps:
        return settings
    return dataclasses.replace(settings, max_steps=steps[0])


def trained(
    settings: MnistSettings,
    dataset: data.Dataset,
    fingerprint: str,
    repeat: int,
    *,
    runs_dir: str,
    checkpoint_seconds: float,
) -> UnitRun:
    """Train one network unless it is finished; return it with its settings but the seed, and the data.

    Args:
        settings: of the training.
        dataset: MNIST.
        fingerprint: of the data.
        repeat: its number among the runs of its kind.
        runs_dir: the folder for results.
        checkpoint_seconds: shortest time between two checkpoints.
    """
    identity = {**settings.as_dict(), "data": fingerprint}
    digest = hashlib.sha256(repr(sorted(identity.items())).encode()).hexdigest()[:10]
    name = f"{settings.anchors.replace(' ', '_')}-{digest}"
    run = RunDirectory(pathlib.Path(runs_dir) / "mnist_study" / name, identity)
    result = run.read_result()
    if result is None:
        import_tensorflow()
        from experiments.studies.mnist_training import MnistTraining

        with run.locked():
            result = MnistTraining(settings, dataset, run).train(checkpoint_seconds)
    config = {name: value for name, value in identity.items() if name != "seed"}
    return UnitRun(run.path, 0, repeat, {**config, "dataset": DATASET}, result)


PROTOCOL, DATASET = "mnist_study", "mnist"
DRAWN = "proxies"  # whose first run the picture shows
_FIXED = "fixed proxies"
_DIGITS = 6  # of recorded figures


def recordable(runs: Sequence[UnitRun], dataset: Dataset) -> list[tuple[reports.MethodRuns, RecordedMethod]]:
    """Convert each run to a method with its states and, if drawn, its digits.

    Args:
        runs: finished ones.
        dataset: of the training.
    """
    kinds = list(dict.fromkeys(run.config["anchors"] for run in runs))
    found = []
    for run in runs:
        anchors = run.config["anchors"]
        digest = hashlib.sha256(repr(sorted(run.config.items())).encode()).hexdigest()[:10]
        method = reports.MethodRuns(run.path, PROTOCOL, DATASET, anchors, digest, (run,))
        extras = {"place": kinds.index(anchors), "held against": None if anchors == DRAWN else DRAWN}
        found.append((method, RecordedMethod((run,), label_of(run), extras, _measured(dataset))))
    return found


def label_of(run: UnitRun) -> str:
    """Name a run's kind; fixed proxies train as long as their seed's others."""
    anchors = run.config["anchors"]
    return f"{anchors}, {run.config['max_steps']:,} steps" if anchors == _FIXED else anchors


def _measured(dataset: Dataset) -> Callable[[UnitRun], Extras]:
    def measured(run: UnitRun) -> Extras:
        states = states_of(run, dataset)
        found = [_rounded(state) for state in states]
        values = {"states": found, "class_names": list(dataset.class_names), **_ends(found[1:])}
        if run.config["anchors"] != DRAWN or run.repeat:
            return Extras(values, {})
        drawn = drawn_digits(dataset)
        arrays = {"labels": dataset.test.labels[drawn].astype(np.uint8)}
        for state in states:
            snapshot = snapshot_of(run.path, state.index, drawn)
            arrays |= {f"{name}_{state.index}": of.astype(np.float32) for name, of in snapshot.items()}
        return Extras(values, arrays)

    return measured


def _ends(solved: Sequence[Mapping[str, Any]]) -> dict[str, float]:
    """Return MAP@R and covering radius after the first and last problem, for quotes."""
    ends = {"first": solved[0], "last": solved[-1]} if solved else {}
    quoted = {"map_at_r": "map_at_r", "cover": "cover_of_converged"}
    return {f"{name}_{end}": state[of] for end, state in ends.items() for name, of in quoted.items()}


def _rounded(state: State) -> dict[str, Any]:
    values = dataclasses.asdict(state)
    return {name: round(value, _DIGITS) if isinstance(value, float) else value for name, value in values.items()}


def mnist_problems(study: StudyRows, anchors: str) -> tuple[reports.PlainTable, list[str]]:
    """Tabulate the states of a recorded first run beside the published panels.

    Args:
        study: its rows.
        anchors: that represent the classes, a label of the rows; returned, too.
    """
    states = [_recorded_states(row) for row in rows_with(study, "states", "3.2", anchors)]
    return dataclasses.replace(problems_table(anchors, states), title=""), [anchors]


def draw_mnist_problems(study: StudyRows, path: pathlib.Path, anchors: str) -> None:
    """Draw test digits in the plane.

    Args:
        study: its rows.
        path: of the PNG.
        anchors: of a run with recorded digits.
    """
    row = rows_with(study, "states", "3.2", anchors)[0]
    states, arrays = _recorded_states(row), study.scored(row).arrays
    endings = [f"_{index}" for index in range(len(states))]
    snapshots = [
        {name.removesuffix(ending): values for name, values in arrays.items() if name.endswith(ending)}
        for ending in endings
    ]
    draw_states(states, snapshots, arrays["labels"], row["extras"]["class_names"], path, anchors)


def _recorded_states(row: Mapping[str, Any]) -> list[State]:
    return [State(**state) for state in row["extras"]["states"]]
