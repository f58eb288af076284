"""Protocols: their units, and running the missing ones.

Reference: thesis section 3.3.2.1 (after Musgrave et al., "A metric learning reality check", 2020). Fair: the training
classes are cut into four folds, each model validates on one of them and trains on the rest, and is tested on unseen
classes.
"""

from __future__ import annotations

import pathlib
from collections.abc import Callable, Collection, Sequence
from typing import Any

from common.data import Dataset
from common.errors import invalid
from common.training.trackers import TENSORBOARD, TrackerChoice
from experiments.protocols.report import MethodReport, write_report
from experiments.rows.rows import Row
from experiments.rows.run_folders import collect_method, finished
from experiments.runs.unit_runs import UnitRuns, follow_pictures
from experiments.settings.config import ExperimentConfig
from experiments.settings.places import Places


class Protocol:
    """Runs of some methods on one data set that are evaluated together.

    Args:
        kind: of the methods' reports.
        dataset: of all of them.
        methods: the configurations of each method, one for each stopping rule of the `kind`.
        places: of data and runs.
        repeats: of each configuration and fold.
        tracker: of the runs.
    """

    def __init__(
        self,
        kind: type[MethodReport],
        dataset: Dataset,
        methods: Sequence[Sequence[ExperimentConfig]],
        places: Places,
        *,
        repeats: int,
        tracker: TrackerChoice = TENSORBOARD,
    ):
        self.kind, self.dataset, self.by_method, self.repeats = kind, dataset, methods, repeats
        self.configs = [config for of_rule in zip(*methods) for config in of_rule]
        self.num_folds = 1 if self.configs[0].protocol else self.configs[0].num_folds
        self.runs = UnitRuns(dataset, places, tracker)

    def units(
        self, fold: int | None = None, repeat: int | None = None, rules: Collection[str] | None = None
    ) -> list[tuple[ExperimentConfig, int, int]]:
        """List all (configuration, fold, repeat), or the chosen ones."""
        check_unit_flags(self.num_folds, self.repeats, fold, repeat)
        return [
            (config, k, r)
            for r in (range(self.repeats) if repeat is None else [repeat])
            for configs in self.by_method
            for config in configs
            if rules is None or config.protocol in rules
            for k in (range(self.num_folds) if fold is None else [fold])
        ]

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

    def methods(self) -> list[MethodReport]:
        """Collect each method's runs on disk."""
        build: Callable[..., MethodReport] = self.kind
        runs = {config: collect_method(self.runs.method_dir(config)) for config in self.configs}
        return [build(*of, *(runs[config] for config in of), self.repeats) for of in self.by_method]

    def finished(self, methods: Sequence[MethodReport], **chosen: Any) -> list[Row]:
        """Return the finished runs of `methods`, all or those of the chosen `units`."""
        runs = {config: finished(rows) for method in methods for _, config, rows in method.sides}
        return [runs[config][k, r] for config, k, r in self.units(**chosen) if (k, r) in runs.get(config, {})]

    @property
    def title(self) -> str:
        """Title of the report."""
        folds = "" if self.configs[0].protocol else f"{self.num_folds} folds, "
        return f"{self.kind.title} protocol on {self.dataset.name}: {folds}{self.repeats} repeat(s)"

    @property
    def report_dir(self) -> pathlib.Path:
        """Folder of the report's files."""
        return self.runs.report_dir(self.configs)

    def report(self, methods: Sequence[MethodReport]) -> str:
        """Write the table and picture of `methods` beside the runs; return the terminal's text."""
        return write_report(methods, self.report_dir, self.title, notes=self.runs.data_notes())

    def follow_report(self) -> None:
        """Add the report's pictures to the tracker."""
        names = ", ".join(dict.fromkeys(config.name for config in self.configs))
        follow_pictures(self.runs.tracker, self.report_dir, f"{self.title}: {names}")


def check_unit_flags(num_folds: int, repeats: int, fold: int | None, repeat: int | None) -> None:
    """Raise `InvalidInput` for a fold or repeat out of range (None: all)."""
    for flag, value, count in (("--fold", fold, num_folds), ("--repeat", repeat, repeats)):
        if value is not None and not 0 <= value < count:
            raise invalid(flag, received=value, expected=f"a number from 0 to {count - 1}")
