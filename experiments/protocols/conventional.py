"""The conventional protocol: stopping on the test set, and beside it on held-out classes."""

from __future__ import annotations

import pathlib
from collections.abc import Callable, Iterable

from common.data import Dataset
from common.errors import check_choice
from common.training.trackers import TENSORBOARD, TrackerChoice
from experiments.protocols.conventional_report import ConventionalReport, write_report
from experiments.protocols.fair import check_unit_flags
from experiments.reports import collect_method
from experiments.runs.tracked_units import follow_pictures
from experiments.runs.unit_runs import UnitRuns
from experiments.settings.config import ExperimentConfig
from experiments.settings.places import Places

MONITORS = {"test_set": "conventional", "held_out": "held_out"}  # flag value: protocol of the configuration
DEFAULT_REPEATS = 3  # the tables print the best of three


class ConventionalProtocol:
    """Repeats of some methods on one data set, each with its unbiased counterpart.

    The biased unit learns from all training classes; R@1 *on the test set* lowers its learning rate, ends its training
    and picks its weights. The unbiased unit keeps some training classes back for all of that, and sees the test set
    once.

    Reference: thesis sections 3.3.2.1 and 5.3.4.1, tables 3.2 and 5.2 (best of three); after Musgrave et al., "A metric
    learning reality check", 2020, on why its figures are optimistic.

    Args:
        dataset: as loaded.
        configs: each method's configuration of the protocol `conventional`.
        held_out_configs: the same methods' of the protocol `held_out`, in the same order.
        places: see `UnitRuns`.
        repeats: runs of each, with different seeds.
        tracker: what follows the units that are trained.
    """

    def __init__(
        self,
        dataset: Dataset,
        configs: list[ExperimentConfig],
        held_out_configs: list[ExperimentConfig],
        places: Places,
        *,
        repeats: int,
        tracker: TrackerChoice = TENSORBOARD,
    ):
        self.configs = {"test_set": configs, "held_out": held_out_configs}
        self.runs, self.repeats = UnitRuns(dataset, places, tracker), repeats

    def run(
        self,
        *,
        repeat: int | None = None,
        monitors: Iterable[str] = tuple(MONITORS),
        checkpoint_seconds: float = 30.0,
        afterwards: Callable[[pathlib.Path], None] | None = None,
    ) -> None:
        """Train every unit without a result; stopped ones resume from their checkpoint.

        Args:
            repeat: this repeat only.
            monitors: which of `MONITORS`.
            checkpoint_seconds: shortest time between two checkpoints.
            afterwards: called with the folder of each unit, once it has finished.

        Raises:
            InvalidInput: a repeat or monitor that the protocol does not have, or a unit that cannot be trained; then
                none is.
        """
        check_unit_flags(1, self.repeats, None, repeat)
        monitors = [check_choice("--monitor", monitor, MONITORS) for monitor in monitors]
        units = [
            (self.configs[monitor][position], 0, index)
            for index in (range(self.repeats) if repeat is None else [repeat])
            for position in range(len(self.configs["test_set"]))
            for monitor in monitors
        ]
        self.runs.check(units)
        for config, fold, index in units:
            self.runs.train(config, fold, index, checkpoint_seconds)
            if afterwards is not None:
                afterwards(self.runs.unit_dir(config, fold, index))

    def methods(self) -> list[ConventionalReport]:
        """Return each method's results on disk."""
        methods = []
        for config, held_out in zip(self.configs["test_set"], self.configs["held_out"]):
            biased, unbiased = (collect_method(self.runs.method_dir(one)) for one in (config, held_out))
            methods.append(ConventionalReport(config, held_out, biased, unbiased, self.repeats))
        return methods

    def report(self, write: Callable[..., str] = write_report) -> str:
        """Write the table and picture beside the runs; return the terminal's text.

        Args:
            write: called with the methods, the folder, a title and `notes` on the data.
        """
        return write(self.methods(), self.report_dir(), self._title(), notes=self.runs.data_notes())

    def follow_report(self) -> None:
        """Add the report's pictures to the tracker."""
        names = ", ".join(config.name for config in self.configs["test_set"])
        follow_pictures(self.runs.tracker, self.report_dir(), f"{self._title()}: {names}")

    def report_dir(self) -> pathlib.Path:
        """Return the folder of the report's files."""
        return self.runs.report_dir([*self.configs["test_set"], *self.configs["held_out"]])

    def _title(self) -> str:
        return f"Conventional protocol on {self.runs.dataset.name}: {self.repeats} repeat(s)"
