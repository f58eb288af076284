"""A study's cells on disk: finding the finished ones and training the others."""

from __future__ import annotations

from collections.abc import Iterable

from common.data import Dataset
from common.training.trackers import TENSORBOARD, TrackerChoice
from experiments import reports
from experiments.plans.study import Cell
from experiments.reports import UnitRun
from experiments.runs.unit_runs import UnitRuns
from experiments.settings.places import Places


class StudyRuns:
    """Units of cells, found by configuration hash or trained."""

    def __init__(
        self,
        dataset: Dataset,
        places: Places,
        *,
        checkpoint_seconds: float = 30.0,
        tracker: TrackerChoice = TENSORBOARD,
    ):
        self.unit_runs = UnitRuns(dataset, places, tracker)
        self.dataset, self.cache_dir, self.checkpoint_seconds = dataset, places.cache_dir, checkpoint_seconds
        self.problems: list[str] = []
        self._finished: dict[Cell, UnitRun] = {}

    def unit(self, cell: Cell) -> UnitRun | None:
        """Return the finished unit of a cell, or None."""
        if cell not in self._finished:
            runs = reports.collect_method(self.unit_runs.method_dir(cell.config))
            self.problems += [problem for problem in runs.problems if problem not in self.problems]
            unit = runs.finished.get((cell.fold, cell.repeat))
            if unit is None:
                return None
            self._finished[cell] = unit
            self.unit_runs.complete_tracking(cell.config, cell.fold, cell.repeat, unit.measured)
        return self._finished[cell]

    def check(self, cells: Iterable[Cell]) -> None:
        """Refuse untrainable cells before reading an image or making a folder."""
        self.unit_runs.check((cell.config, cell.fold, cell.repeat) for cell in cells)

    def run(self, cell: Cell) -> None:
        """Train a cell; resume from its last checkpoint."""
        self.unit_runs.train(cell.config, cell.fold, cell.repeat, self.checkpoint_seconds)


class NothingFinished:
    """Substitute for `StudyRuns` without data: every cell is missing."""

    dataset = None
    cache_dir = None
    problems: tuple[str, ...] = ()

    def unit(self, cell: Cell) -> None:
        """Return None: nothing has been trained."""
