"""The fair protocol: its units, and running the missing ones.

Reference: thesis section 3.3.2.1 (after Musgrave et al., "A metric learning reality check", 2020): the training classes
are cut into four folds, each model validates on one of them and trains on the rest, and is tested on unseen classes.
"""

from __future__ import annotations

import itertools
import pathlib
from collections.abc import Callable

from common.data import Dataset
from common.errors import invalid
from common.training.trackers import TENSORBOARD, TrackerChoice
from experiments.protocols.fair_report import MethodReport, export_advice, write_report
from experiments.reports import UnitRun, collect_method
from experiments.runs.tracked_units import follow_pictures
from experiments.runs.unit_runs import UnitRuns
from experiments.settings.config import ExperimentConfig
from experiments.settings.places import Places


class FairProtocol:
    """All folds and repeats of some configurations on one data set.

    Args:
        dataset: as loaded.
        configs: configurations of the methods to compare, all on this data set.
        places: see `UnitRuns`.
        repeats: runs of each fold, with different seeds.
        tracker: what follows the units that are trained.
    """

    def __init__(
        self,
        dataset: Dataset,
        configs: list[ExperimentConfig],
        places: Places,
        *,
        repeats: int,
        tracker: TrackerChoice = TENSORBOARD,
    ):
        self.dataset, self.configs, self.repeats = dataset, configs, repeats
        self.runs = UnitRuns(dataset, places, tracker)

    def units(self, fold: int | None = None, repeat: int | None = None) -> list[tuple[ExperimentConfig, int, int]]:
        """List all (configuration, fold, repeat), or those of one fold or repeat.

        Raises:
            InvalidInput: a fold or repeat that the protocol does not have.
        """
        num_folds = self.configs[0].num_folds
        check_unit_flags(num_folds, self.repeats, fold, repeat)
        folds = range(num_folds) if fold is None else [fold]
        repeats = range(self.repeats) if repeat is None else [repeat]
        return [(config, k, r) for r, config, k in itertools.product(repeats, self.configs, folds)]

    def run(
        self,
        *,
        fold: int | None = None,
        repeat: int | None = None,
        checkpoint_seconds: float = 30.0,
        afterwards: Callable[[pathlib.Path], None] | None = None,
    ) -> None:
        """Train every unit without a result; stopped ones resume from their checkpoint.

        Args:
            fold: this fold only.
            repeat: this repeat only.
            checkpoint_seconds: shortest time between two checkpoints.
            afterwards: called with the folder of each unit, once it has finished.

        Raises:
            InvalidInput: any of the units cannot be trained; then none is.
        """
        units = self.units(fold, repeat)
        self.runs.check(units)
        for config, fold_index, repeat_index in units:
            self.runs.train(config, fold_index, repeat_index, checkpoint_seconds)
            if afterwards is not None:
                afterwards(self.runs.unit_dir(config, fold_index, repeat_index))

    def finished(self, *, fold: int | None = None, repeat: int | None = None) -> list[UnitRun]:
        """Return the finished units, optionally of one fold or one repeat."""
        runs = {config: collect_method(self.runs.method_dir(config)).finished for config in self.configs}
        units = self.units(fold, repeat)
        return [runs[config][k, r] for config, k, r in units if (k, r) in runs[config]]

    def report(self) -> str:
        """Write the table and picture beside the runs; return the terminal's text."""
        return write_report(self._methods(), self.runs.report_dir(self.configs), self.title, self.runs.data_notes())

    def export_advice(self) -> str | None:
        """Name the command that exports the better of trained and untrained; see `export_advice`."""
        return export_advice(self._methods(), self.dataset, self.runs.places.data_dir)

    def _methods(self) -> list[MethodReport]:
        return [
            MethodReport(config, collect_method(self.runs.method_dir(config)), self.repeats) for config in self.configs
        ]

    @property
    def title(self) -> str:
        """Title of the report."""
        return f"Fair protocol on {self.dataset.name}: {self.configs[0].num_folds} folds, {self.repeats} repeat(s)"

    def follow_report(self) -> None:
        """Add the report's pictures to the tracker."""
        names = ", ".join(config.name for config in self.configs)
        follow_pictures(self.runs.tracker, self.runs.report_dir(self.configs), f"{self.title}: {names}")


def check_unit_flags(num_folds: int, repeats: int, fold: int | None, repeat: int | None) -> None:
    """Raise `InvalidInput` for a fold or repeat out of range (None: all)."""
    _check_index("--fold", fold, num_folds)
    _check_index("--repeat", repeat, repeats)


def _check_index(flag: str, value: int | None, count: int) -> None:
    if value is not None and not 0 <= value < count:
        raise invalid(flag, received=value, expected=f"a number from 0 to {count - 1}")
