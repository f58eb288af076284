"""A study's cells on disk: finding the finished ones and training the others."""

from __future__ import annotations

import itertools
import pathlib
from collections.abc import Collection, Iterable

from common.data import Dataset
from common.training.trackers import TENSORBOARD, TrackerChoice
from experiments.plans.study import Cell
from experiments.rows.rows import Row
from experiments.rows.run_folders import collect_method, finished, problems_of
from experiments.runs.unit_runs import UnitRuns
from experiments.settings import build
from experiments.settings.config import ExperimentConfig
from experiments.settings.places import Places


class StudyRuns:
    """Units of cells, found by configuration hash or trained.

    Args:
        dataset: of all cells, except those on one of the `variants`, which are loaded when a cell needs them.
    """

    def __init__(
        self,
        dataset: Dataset,
        places: Places,
        variants: Collection[str] = (),
        *,
        checkpoint_seconds: float = 30.0,
        tracker: TrackerChoice = TENSORBOARD,
    ):
        self.places, self.dataset, self.cache_dir = places, dataset, places.cache_dir
        self.checkpoint_seconds, self.tracker = checkpoint_seconds, tracker
        self.problems: list[str] = []
        self._runs = UnitRuns(dataset, places, tracker)
        self._on_variants: dict[str, UnitRuns | None] = dict.fromkeys(variants)
        self._finished: dict[Cell, Row] = {}

    def _runs_on(self, dataset: str) -> UnitRuns:
        if dataset not in self._on_variants:
            return self._runs
        runs = self._on_variants[dataset]
        if runs is None:
            loaded = build.load_dataset(dataset, self.places.data_dir, self.cache_dir, seed=0)
            runs = self._on_variants[dataset] = UnitRuns(loaded, self.places, self.tracker)
        return runs

    def dataset_of(self, name: str) -> Dataset:
        """Return the loaded data set of this name: a variant, or `dataset`."""
        return self._runs_on(name).dataset

    def unit_dir(self, config: ExperimentConfig, fold: int, repeat: int) -> pathlib.Path:
        """Return the run directory of one unit."""
        return self._runs_on(config.dataset).unit_dir(config, fold, repeat)

    def row(self, cell: Cell) -> Row | None:
        """Return the row of a finished cell, or None."""
        if cell not in self._finished:
            of_data = self._runs_on(cell.config.dataset)
            rows = collect_method(of_data.method_dir(cell.config))
            self.problems += [problem for problem in problems_of(rows) if problem not in self.problems]
            row = finished(rows).get((cell.fold, cell.repeat))
            if row is None:
                return None
            self._finished[cell] = row
            of_data.complete_tracking(cell.config, cell.fold, cell.repeat, row.result)
        return self._finished[cell]

    def check(self, cells: Iterable[Cell]) -> None:
        """Refuse untrainable cells before reading an image or making a folder."""
        for dataset, of_data in itertools.groupby(cells, lambda cell: cell.config.dataset):
            self._runs_on(dataset).check((cell.config, cell.fold, cell.repeat) for cell in of_data)

    def run(self, cell: Cell) -> None:
        """Train a cell; resume from its last checkpoint."""
        runs = self._runs_on(cell.config.dataset)
        runs.train(cell.config, cell.fold, cell.repeat, self.checkpoint_seconds)


class NothingFinished:
    """Substitute for `StudyRuns` without data: every cell is missing."""

    dataset = None
    cache_dir = None
    problems: tuple[str, ...] = ()

    def row(self, cell: Cell) -> None:
        """Return None: nothing has been trained."""

    def dataset_of(self, name: str) -> None:
        """Return None: nothing is loaded."""
