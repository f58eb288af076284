"""The conventional protocol: stopping on the test set, and beside it on held-out classes.

Also the flags, runs and reports that its commands share.
"""

from __future__ import annotations

import functools
import pathlib
from collections.abc import Callable, Iterable

from absl import flags

from common.data import Dataset
from common.errors import InvalidInput, check_all, check_choice
from common.training.trackers import TENSORBOARD, TrackerChoice
from experiments.protocols.conventional_report import ConventionalReport
from experiments.protocols.fair import Protocol, check_unit_flags
from experiments.protocols.report import write_report
from experiments.protocols.report_files import print_report
from experiments.reports import UnitRun, collect_method
from experiments.runs.start_checks import checked_with_data
from experiments.settings import build
from experiments.settings import flags as experiment_flags
from experiments.settings.config import ExperimentConfig
from experiments.settings.places import Places
from experiments.settings.tracker_flags import TRAINS_NOTHING, define_tracker_flags, tracker_from_flags

flags.disclaim_key_flags()  # they belong to the command that asks for them, whose --help lists them

MONITORS = {"test_set": "conventional", "held_out": "held_out"}  # flag value: protocol of the configuration
DEFAULT_REPEATS = 3  # the tables print the best of three


class ConventionalProtocol(Protocol):
    """Repeats of some methods on one data set, each with its unbiased counterpart.

    The biased unit learns from all training classes; R@1 *on the test set* lowers its learning rate, ends its training
    and picks its weights. The unbiased unit keeps some training classes back for all of that, and sees the test set
    once.

    Reference: thesis sections 3.3.2.1 and 5.3.4.1, tables 3.2 and 5.2 (best of three); after Musgrave et al., "A metric
    learning reality check", 2020, on why its figures are optimistic.
    """

    def __init__(
        self,
        dataset: Dataset,
        configs: list[ExperimentConfig],
        held_out_configs: list[ExperimentConfig],  # of the same methods
        places: Places,
        *,
        repeats: int,
        tracker: TrackerChoice = TENSORBOARD,
        kind: type[ConventionalReport] = ConventionalReport,
    ):
        super().__init__(dataset, [*configs, *held_out_configs], places, repeats=repeats, tracker=tracker)
        self.kind, self.by_monitor = kind, {"test_set": configs, "held_out": held_out_configs}

    def units(self, repeat: int | None = None, monitors: Iterable[str] = tuple(MONITORS)) -> list:
        """List all (configuration, fold, repeat), or those that are asked for."""
        check_unit_flags(1, self.repeats, None, repeat)
        monitors = [check_choice("--monitor", monitor, MONITORS) for monitor in monitors]
        return [
            (self.by_monitor[monitor][position], 0, index)
            for index in (range(self.repeats) if repeat is None else [repeat])
            for position in range(len(self.by_monitor["test_set"]))
            for monitor in monitors
        ]

    def methods(self) -> list[ConventionalReport]:
        """Collect each method's runs on disk."""
        methods = []
        for pair in zip(self.by_monitor["test_set"], self.by_monitor["held_out"]):
            biased, unbiased = (collect_method(self.runs.method_dir(config)) for config in pair)
            methods.append(self.kind(*pair, biased, unbiased, self.repeats))
        return methods

    def report(self, methods: list[ConventionalReport]) -> str:
        """Write the table and picture of `methods` beside the runs; return the terminal's text."""
        return write_report(methods, self.report_dir, self.title, notes=self.runs.data_notes())

    @property
    def title(self) -> str:
        """Title of the report."""
        return f"{self.kind.title} protocol on {self.dataset.name}: {self.repeats} repeat(s)"


def evaluate(
    values: flags.FlagValues,
    kind: type[ConventionalReport] = ConventionalReport,
    afterwards: Callable[[Dataset], Callable[[pathlib.Path], None]] | None = None,
) -> list[UnitRun]:
    """Run the missing units of the methods that flags name, then report.

    `afterwards` makes, from the data set, a function called with each finished unit's folder.
    """
    monitors = [check_choice("--monitor", monitor, MONITORS) for monitor in values.monitor]
    experiment_flags.check_distinct("--monitor", monitors)
    if not monitors:
        raise InvalidInput(
            f"Invalid --monitor: received an empty list, expected one of {', '.join(MONITORS)}, or both."
        )
    configurations = functools.partial(experiment_flags.configurations_from_flags, values)
    of_test_set, of_held_out = check_all(
        [
            lambda: configurations("conventional", ignored=("held_out_fraction",)),
            lambda: configurations("held_out"),
        ]
    )
    load = functools.partial(build.load_dataset_of, of_test_set[0], values.data_dir, values.cache_dir)
    checks = (
        lambda: check_unit_flags(1, values.repeats, None, values.repeat),
        lambda: tracker_from_flags(values, values.dataset, not values.report_only, TRAINS_NOTHING),
    )
    trained = () if values.report_only else (*of_test_set, *of_held_out)
    _, tracker, dataset = checked_with_data(checks, trained, load)
    places, repeats = experiment_flags.places_from(values), values.repeats
    both = of_test_set, of_held_out
    protocol = ConventionalProtocol(dataset, *both, places, repeats=repeats, tracker=tracker, kind=kind)
    if not values.report_only:
        after_each = afterwards(dataset) if afterwards is not None else None
        seconds = values.checkpoint_seconds
        protocol.run(repeat=values.repeat, monitors=monitors, checkpoint_seconds=seconds, afterwards=after_each)
    methods = protocol.methods()
    print_report(protocol.report(methods), protocol.report_dir, values.details)
    if values.repeat is None:
        protocol.follow_report()
    return [unit for method in methods for *_, runs in method.sides for unit in runs.finished.values()]


def define_flags(repeats: int) -> None:
    """Define all flags, with `repeats` trainings per unit by default."""
    experiment_flags.define_experiment_flags()
    experiment_flags.define_run_flags(units=("repeat",), repeats=repeats)
    experiment_flags.define(*experiment_flags.METHODS_FLAGS)
    define_tracker_flags()
    flags.DEFINE_list(
        "monitor", list(MONITORS), "What stops training: test_set, held_out or both. Runs these units only."
    )
