"""Cells of a study, or units of the fair protocol, as launcher tasks."""

from __future__ import annotations

import dataclasses
import pathlib
from collections.abc import Iterable, Mapping

from common.errors import InvalidInput
from common.files import is_locked
from common.records.run_directory import read_finished_result
from experiments.launch.launch_flags import Launcher
from experiments.launch.unit_task import Failure, UnitTask
from experiments.plans.study import Cell, Study
from experiments.plans.study_runs import StudyRuns
from experiments.plans.unit_command import unit_command
from experiments.runs.unit import unit_label
from experiments.runs.unit_runs import UnitRuns
from experiments.settings.config import ExperimentConfig


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


def cell_tasks(
    runs: UnitRuns, cells: Iterable[Cell], places: Mapping[str, object], *, export_model: bool
) -> list[RunTask]:
    """Convert cells to launcher tasks; cells of one run directory share a task."""
    tasks: dict[pathlib.Path, RunTask] = {}
    for cell in cells:
        folder = runs.unit_dir(cell.config, cell.fold, cell.repeat)
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
        missing = [cell for cell in study.cells(runs) if runs.unit(cell) is None and cell not in tried]
        missing = missing[: None if max_cells is None else max_cells - len(tried)]
        if not missing:
            return failures
        ended = launcher.run(cell_tasks(runs.unit_runs, missing, places, export_model=False))
        failures += ended
        tried += missing
        if len(ended) == 0 and any(runs.unit(cell) is None for cell in missing):
            raise InvalidInput("\n".join(runs.problems) or "A unit left no result. Run the command again.")
