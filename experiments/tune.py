"""Search of hyper-parameters on validation classes: equal trials, resumable.

Regenerates: no table of the thesis, whose own search is `experiments.figure --id=3.5`; docs/tune.md.
Command: python -m experiments.tune --dataset=glyphs --methods=c2+gap,c2+gsp --budget=demo --trials=20
    --parameters=learning_rate=1e-4..1e-2:log,transport_ratio
Expected: a table of the best settings, pictures, and a recipe for `fair_eval --recipe=FILE`.
Cost: trials x methods x folds runs of the budget, less pruned steps.
"""

from __future__ import annotations

import functools
import pathlib

from absl import flags

from common.files import check_output_file
from experiments.recipes.words import configurations_from_flags
from experiments.runs.start_checks import checked_with_data
from experiments.runs.unit_runs import follow_pictures
from experiments.settings import build, flags as experiment_flags
from experiments.settings.tracker_flags import TRAINS_NOTHING, define_tracker_flags, tracker_from_flags
from experiments.tuning.command import searches_from_flags, spaces_from_flags
from experiments.tuning.outcome import Outcome
from experiments.tuning.search import PRUNERS, SEARCHES


def main() -> None:
    """Train the missing trials, then report the best settings."""
    values = flags.FLAGS
    configs = configurations_from_flags(values)
    load = functools.partial(build.load_dataset_of, configs[0], values.data_dir, values.cache_dir)
    checks = (
        lambda: check_output_file("--output", values.output) if values.output else None,
        lambda: spaces_from_flags(values, configs),
        lambda: tracker_from_flags(values, values.dataset, not values.report_only, TRAINS_NOTHING),
    )
    _, spaces, tracker, dataset = checked_with_data(checks, () if values.report_only else configs, load)
    searches, folder = searches_from_flags(values, configs, spaces, dataset, tracker)
    if not values.report_only:
        for search in searches:
            search.run(values.trials, values.checkpoint_seconds)
    outcome = Outcome(searches, values.recipe, values.trials, folder)
    print(outcome.write(pathlib.Path(values.output or folder / "recipe.json")))
    follow_pictures(tracker, folder, f"Search of {', '.join(config.name for config in configs)} on {values.dataset}")


if __name__ == "__main__":
    experiment_flags.define_experiment_flags()
    experiment_flags.define(
        *experiment_flags.METHODS_FLAGS, *experiment_flags.PLACE_FLAGS, *experiment_flags.UNIT_FLAGS
    )
    flags.DEFINE_integer("trials", 20, "Trials of each method, in all; more continue the same search.", lower_bound=1)
    flags.DEFINE_list(
        "parameters", ["learning_rate"], "Settings to search: own, NAME, NAME=LOW..HIGH[:log] or NAME=A|B."
    )
    flags.DEFINE_integer("tuning_folds", 1, "Folds that a trial is trained on; it is worth their mean.", lower_bound=1)
    flags.DEFINE_enum("search", "tpe", SEARCHES, "How the next trial is chosen.")
    flags.DEFINE_enum(
        "pruning", "median", PRUNERS, "Which trials end early: below the median, or below the best third halfway."
    )
    flags.DEFINE_string("storage", None, "Address of a database for many workers (default: SQLite in --runs_dir).")
    flags.DEFINE_string("output", None, "File for the recipe (default: beside the tables).")
    flags.DEFINE_boolean("report_only", False, "Train nothing; report the trials that have ended.")
    define_tracker_flags()
    experiment_flags.run_command(main)
