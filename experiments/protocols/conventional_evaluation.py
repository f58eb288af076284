"""Shared flags, runs and reports of the conventional protocols' commands."""

from __future__ import annotations

import pathlib
from collections.abc import Callable

from absl import flags

from common.data import Dataset
from common.errors import InvalidInput, check_choice
from experiments.protocols.conventional import MONITORS, ConventionalProtocol
from experiments.protocols.conventional_report import write_report
from experiments.protocols.fair import check_unit_flags
from experiments.protocols.report_files import print_report
from experiments.reports import UnitRun
from experiments.runs.start_checks import check_configurations
from experiments.settings import build
from experiments.settings import flags as experiment_flags
from experiments.settings.tracker_flags import TRAINS_NOTHING, define_tracker_flags, tracker_from_flags

flags.disclaim_key_flags()  # they belong to the command that asks for them, whose --help lists them


def evaluate(
    values: flags.FlagValues,
    write: Callable = write_report,
    afterwards: Callable[[Dataset], Callable[[pathlib.Path], None]] | None = None,
) -> list[UnitRun]:
    """Run the missing units of the methods that flags name, then report.

    Args:
        values: of the command line.
        write: the report, see `ConventionalProtocol.report`.
        afterwards: makes, from the data set, a function called with each finished unit's folder.

    Returns:
        All finished runs of these methods.
    """
    monitors = [check_choice("--monitor", monitor, MONITORS) for monitor in values.monitor]
    experiment_flags.check_distinct("--monitor", monitors)
    if not monitors:
        raise InvalidInput(
            f"Invalid --monitor: received an empty list, expected one of {', '.join(MONITORS)}, or both."
        )
    configs = experiment_flags.configurations_from_flags(values, "conventional", ignored=("held_out_fraction",))
    held_out_configs = experiment_flags.configurations_from_flags(values, "held_out")
    check_unit_flags(1, values.repeats, None, values.repeat)
    tracker = tracker_from_flags(values, values.dataset, not values.report_only, TRAINS_NOTHING)
    if not values.report_only:
        check_configurations([*configs, *held_out_configs], values.data_dir)
    dataset = build.load_dataset_of(configs[0], values.data_dir, values.cache_dir)
    options = {"repeats": values.repeats, "tracker": tracker}
    places = experiment_flags.places_from(values)
    protocol = ConventionalProtocol(dataset, configs, held_out_configs, places, **options)
    if not values.report_only:
        after_each = afterwards(dataset) if afterwards is not None else None
        seconds = values.checkpoint_seconds
        protocol.run(repeat=values.repeat, monitors=monitors, checkpoint_seconds=seconds, afterwards=after_each)
    print_report(protocol.report(write), protocol.report_dir(), values.details)
    if values.repeat is None:
        protocol.follow_report()
    found = [runs for method in protocol.methods() for runs in (method.runs, method.held_out_runs) if runs]
    return [unit for runs in found for unit in runs.finished.values()]


def define_flags(repeats: int) -> None:
    """Define all flags, with `repeats` trainings per unit by default."""
    experiment_flags.define_experiment_flags(build.DATASETS, build.LOSSES, build.POOLINGS)
    experiment_flags.define_run_flags(units=("repeat",), repeats=repeats)
    experiment_flags.define_methods_flags()
    define_tracker_flags()
    flags.DEFINE_list(
        "monitor", list(MONITORS), "What stops training: test_set, held_out or both. Runs these units only."
    )
