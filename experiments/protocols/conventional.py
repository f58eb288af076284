"""The conventional protocol: stopping on the test set, and beside it on held-out classes.

Its biased runs learn from all training classes; R@1 *on the test set* lowers their learning rate, ends their training
and picks their weights. The unbiased runs keep some training classes back for all of that, and see the test set once.

Reference: thesis sections 3.3.2.1 and 5.3.4.1, tables 3.2 and 5.2 (best of three); after Musgrave et al., "A metric
learning reality check", 2020, on why its figures are optimistic.
"""

from __future__ import annotations

import functools
import pathlib
from collections.abc import Callable

from absl import flags

from common.data import Dataset
from common.errors import InvalidInput, check_all, check_choice
from experiments.protocols.conventional_report import ConventionalReport
from experiments.protocols.fair import Protocol, check_unit_flags
from experiments.protocols.report_files import print_report
from experiments.recipes.words import check_distinct, configurations_from_flags
from experiments.rows.rows import Row
from experiments.runs.start_checks import checked_with_data
from experiments.settings import build, flags as experiment_flags
from experiments.settings.tracker_flags import TRAINS_NOTHING, define_tracker_flags, tracker_from_flags

flags.disclaim_key_flags()  # they belong to the command that asks for them, whose --help lists them

MONITORS = {"test_set": "conventional", "held_out": "held_out"}  # flag value: protocol of the configuration
DEFAULT_REPEATS = 3  # the tables print the best of three


def evaluate(
    values: flags.FlagValues,
    kind: type[ConventionalReport] = ConventionalReport,
    afterwards: Callable[[Dataset], Callable[[pathlib.Path], None]] | None = None,
) -> list[Row]:
    """Run the missing units of the methods that flags name, then report.

    `afterwards` makes, from the data set, a function called with each finished unit's folder.
    """
    monitors = [check_choice("--monitor", monitor, MONITORS) for monitor in values.monitor]
    check_distinct("--monitor", monitors)
    if not monitors:
        raise InvalidInput(
            f"Invalid --monitor: received an empty list, expected one of {', '.join(MONITORS)}, or both."
        )
    configurations = functools.partial(configurations_from_flags, values)
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
    pairs = [*zip(of_test_set, of_held_out, strict=True)]
    protocol = Protocol(kind, dataset, pairs, places, repeats=repeats, tracker=tracker)
    if not values.report_only:
        after_each = afterwards(dataset) if afterwards is not None else None
        seconds = values.checkpoint_seconds
        rules = [MONITORS[monitor] for monitor in monitors]
        protocol.run(repeat=values.repeat, rules=rules, checkpoint_seconds=seconds, afterwards=after_each)
    methods = protocol.methods()
    print_report(protocol.report(methods), protocol.report_dir, values.details)
    if values.repeat is None:
        protocol.follow_report()
    return [row for method in methods for *_, rows in method.sides for row in rows if row.is_finished]


def define_flags(repeats: int) -> None:
    """Define all flags, with `repeats` trainings per unit by default."""
    experiment_flags.define_experiment_flags()
    experiment_flags.define_run_flags(units=("repeat",), repeats=repeats)
    experiment_flags.define(*experiment_flags.METHODS_FLAGS)
    define_tracker_flags()
    flags.DEFINE_list(
        "monitor", list(MONITORS), "What stops training: test_set, held_out or both. Runs these units only."
    )
