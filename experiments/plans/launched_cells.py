"""Cells of a study, or fair units, as commands and launcher tasks."""

from __future__ import annotations

import dataclasses
import functools
import pathlib
import shlex
from collections.abc import Callable, Iterable, Mapping

from common.backbones.initial_weights import file_to_make
from common.errors import InvalidInput
from common.files import is_locked
from common.records.run_directory import read_finished_result
from experiments.launch.launch_flags import Launcher
from experiments.launch.unit_task import Failure, UnitTask
from experiments.parts.datasets import traits_of
from experiments.plans.study import Cell, Study
from experiments.plans.study_runs import StudyRuns
from experiments.protocols.conventional import DEFAULT_REPEATS, MONITORS
from experiments.recipes import departures
from experiments.settings.config import ExperimentConfig
from experiments.settings.run_settings import EVERYTHING, OWN_PHOTOS
from experiments.settings.splits import unit_label


@dataclasses.dataclass(frozen=True)
class RunTask(UnitTask):
    """A run as a command that trains it."""

    folder: pathlib.Path  # its run directory, which holds `result.json` once it has finished

    @property
    def log_name(self) -> str:
        """The log's name: method, configuration, fold and repeat."""
        return f"{self.folder.parent.name}-{self.folder.name}.log"

    def is_finished(self) -> bool:
        """Return whether its result is on disk."""
        return read_finished_result(self.folder)[0] is not None

    def is_held(self) -> bool:
        """Return whether any process trains it."""
        return is_locked(self.folder / "lock")


def fair_cells(units: Iterable[tuple[ExperimentConfig, int, int]]) -> list[Cell]:
    """Convert units (configuration, fold, repeat) to cells, named after their method."""
    return [
        Cell(f"{config.name} {unit_label(config, fold, repeat)}", config, fold, repeat)
        for config, fold, repeat in units
    ]


UnitDir = Callable[[ExperimentConfig, int, int], pathlib.Path]  # of a configuration's fold and repeat


def cell_tasks(
    unit_dir: UnitDir, cells: Iterable[Cell], places: Mapping[str, object], *, export_model: bool
) -> list[RunTask]:
    """Convert cells to launcher tasks; cells of one run directory share a task."""
    tasks: dict[pathlib.Path, RunTask] = {}
    for cell in cells:
        folder = unit_dir(cell.config, cell.fold, cell.repeat)
        command = unit_command(cell, {**places, "export_model": export_model})
        tasks.setdefault(folder, RunTask(cell.label, command, folder))
    return list(tasks.values())


def launch_missing(
    study: Study, runs: StudyRuns, launcher: Launcher, max_cells: int | None, places: Mapping[str, object]
) -> list[Failure]:
    """Train missing cells while a search asks for more; return those without result."""
    failures: list[Failure] = []
    tried: list[Cell] = []
    while True:
        missing = [cell for cell in study.cells(runs) if runs.row(cell) is None and cell not in tried]
        missing = missing[: None if max_cells is None else max_cells - len(tried)]
        if not missing:
            return failures
        ended = launcher.run(cell_tasks(runs.unit_dir, missing, places, export_model=False))
        failures += ended
        tried += missing
        if len(ended) == 0 and any(runs.row(cell) is None for cell in missing):
            raise InvalidInput("\n".join(runs.problems) or "A unit left no result. Run the command again.")


DATA_DIR = "data"  # as in the README
_NAMED = ("dataset", "loss", "pooling", "method", "recipe", "budget", "chapter")


def unit_command(cell: Cell, places: Mapping[str, object] | None = None) -> str:
    """Return the command that trains a cell.

    `python -m experiments.fair_eval ...` gets every flag in which the cell differs from its recipe. Unconverted
    ImageNet weights are the file that `file_to_make` names; data without a folder are in `DATA_DIR`. A cell of
    another protocol names `experiments.conventional_eval` and its stopping rule. `places` change no result; None is
    left out, and lists are given item by item.
    """
    config = cell.config
    flags = {name: getattr(config, name) for name in (*_NAMED, *_set_by_hand(config))}
    module, repeats = "experiments.fair_eval", 1
    if config.protocol is None:
        flags["fold"] = cell.fold
    else:
        module, repeats = "experiments.conventional_eval", DEFAULT_REPEATS
        flags["monitor"] = next(name for name, protocol in MONITORS.items() if protocol == config.protocol)
    flags["repeat"] = cell.repeat
    if cell.repeat >= repeats:
        flags["repeats"] = cell.repeat + 1
    if config.recipe == OWN_PHOTOS and config.trained_from is None:
        flags["trained_from"] = EVERYTHING  # also where the unit's process sees no GPU
    made = file_to_make(config.backbone, config.weights)
    if made:
        flags["weights"] = made
    flags |= {name: value for name, value in (places or {}).items() if value is not None}
    if traits_of(config.dataset).needs_files:
        flags.setdefault("data_dir", DATA_DIR)
    given = [(name, each) for name, value in flags.items() for each in (value if isinstance(value, list) else [value])]
    return " ".join([f"python -m {module}", *(_flag(name, value) for name, value in given)])


@functools.lru_cache(maxsize=64)
def _set_by_hand(config: ExperimentConfig) -> tuple[str, ...]:
    """List settings that differ from the recipe, for all folds and repeats."""
    first = [name for name in departures(config, given=("chapter",)) if getattr(config, name) is not None]
    # What follows from these may be another value than the recipe's, which the configuration has, or none.
    return (*first, *departures(config, given=("chapter", *first)))


def _flag(name: str, value) -> str:
    if isinstance(value, bool):
        return f"--{name}" if value else f"--no{name}"
    return shlex.quote(f"--{name}={value}")
