"""The fair protocol: its units, and running the missing ones.

Reference: thesis section 3.3.2.1 (after Musgrave et al., "A metric learning reality check", 2020): the training classes
are cut into four folds, each model validates on one of them and trains on the rest, and is tested on unseen classes.
"""

from __future__ import annotations

import abc
import itertools
import pathlib
from collections.abc import Callable, Sequence
from typing import Any

from common.data import Dataset
from common.errors import invalid
from common.training.trackers import TENSORBOARD, TrackerChoice
from experiments.protocols.fair_report import FairReport
from experiments.protocols.report import write_report
from experiments.reports import UnitRun, collect_method
from experiments.runs.unit_runs import UnitRuns, follow_pictures
from experiments.settings.config import ExperimentConfig
from experiments.settings.places import Places


class Protocol(abc.ABC):
    """Runs of some configurations on one data set that are evaluated together."""

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

    @property
    @abc.abstractmethod
    def title(self) -> str:
        """Title of the report."""

    @abc.abstractmethod
    def units(self, *args: Any, **chosen: Any) -> list[tuple[ExperimentConfig, int, int]]:
        """List all (configuration, fold, repeat), or the chosen ones."""

    def run(
        self,
        *,
        checkpoint_seconds: float = 30.0,
        afterwards: Callable[[pathlib.Path], None] | None = None,
        **chosen: Any,
    ) -> None:
        """Train the chosen `units` without a result; stopped ones resume from their checkpoint.

        If any of them cannot be trained, none is. `afterwards` is called with the folder of each finished unit.
        """
        units = self.units(**chosen)
        self.runs.check(units)
        for config, fold, repeat in units:
            self.runs.train(config, fold, repeat, checkpoint_seconds)
            if afterwards is not None:
                afterwards(self.runs.unit_dir(config, fold, repeat))

    @property
    def report_dir(self) -> pathlib.Path:
        """Folder of the report's files."""
        return self.runs.report_dir(self.configs)

    def follow_report(self) -> None:
        """Add the report's pictures to the tracker."""
        names = ", ".join(dict.fromkeys(config.name for config in self.configs))
        follow_pictures(self.runs.tracker, self.report_dir, f"{self.title}: {names}")


class FairProtocol(Protocol):
    """All folds and repeats of some configurations on one data set; see `Protocol`."""

    @property
    def title(self) -> str:
        """Title of the report."""
        return f"Fair protocol on {self.dataset.name}: {self.configs[0].num_folds} folds, {self.repeats} repeat(s)"

    def units(self, fold: int | None = None, repeat: int | None = None) -> list[tuple[ExperimentConfig, int, int]]:
        """List all (configuration, fold, repeat), or those of one fold or repeat."""
        num_folds = self.configs[0].num_folds
        check_unit_flags(num_folds, self.repeats, fold, repeat)
        folds = range(num_folds) if fold is None else [fold]
        repeats = range(self.repeats) if repeat is None else [repeat]
        return [(config, k, r) for r, config, k in itertools.product(repeats, self.configs, folds)]

    def methods(self) -> list[FairReport]:
        """Collect the runs on disk of each configuration."""
        folders = {config: self.runs.method_dir(config) for config in self.configs}
        return [FairReport(config, collect_method(of), self.repeats) for config, of in folders.items()]

    def finished(
        self, methods: Sequence[FairReport], *, fold: int | None = None, repeat: int | None = None
    ) -> list[UnitRun]:
        """Return the finished units of `methods`, optionally of one fold or one repeat."""
        runs = {method.config: method.runs.finished for method in methods}
        return [runs[config][k, r] for config, k, r in self.units(fold, repeat) if (k, r) in runs.get(config, {})]

    def report(self, methods: list[FairReport]) -> str:
        """Write the table and picture of `methods` beside the runs; return the terminal's text."""
        return write_report(methods, self.report_dir, self.title, notes=self.runs.data_notes())


def trained_units(
    dataset: Dataset,
    configs: list[ExperimentConfig],
    places: Places,
    *,
    repeats: int,
    checkpoint_seconds: float = 30.0,
    report_only: bool = False,
) -> list[list[UnitRun]]:
    """Train the missing runs of one split; return the finished ones by configuration.

    Units are those of the first fold (a data set with a validation set of its own, such as the collages, trains on all
    its training classes there), so that a study and `fair_eval` share their run directories.
    """
    protocol = FairProtocol(dataset, configs, places, repeats=repeats)
    if not report_only:
        protocol.run(fold=0, checkpoint_seconds=checkpoint_seconds)
    return [protocol.finished([method], fold=0) for method in protocol.methods()]


def check_unit_flags(num_folds: int, repeats: int, fold: int | None, repeat: int | None) -> None:
    """Raise `InvalidInput` for a fold or repeat out of range (None: all)."""
    for flag, value, count in (("--fold", fold, num_folds), ("--repeat", repeat, repeats)):
        if value is not None and not 0 <= value < count:
            raise invalid(flag, received=value, expected=f"a number from 0 to {count - 1}")
