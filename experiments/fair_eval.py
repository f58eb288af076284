"""Fair evaluation: class-disjoint folds, averaged and concatenated models.

Regenerates: rows of thesis tables 3.1 and 5.1.
Command: python -m experiments.fair_eval --dataset=sop --data_dir=data --loss=pnca --pooling=gsp
    --weights=bn_inception.npz (`python -m experiments.convert_weights --output=bn_inception.npz` makes that file;
    `--repeats=3` trains each fold three times, as the thesis' chapter 5 does)
Expected: thesis table 5.1, PNCA + GSP on SOP: MAP@R 43.95 (128-D), 47.74 (512-D).
Cost: `--dataset=glyphs --budget=demo` about a minute a fold on 2 CPU cores; `--budget=full` on SOP 4 runs of
    2.8 hours on an RTX 2080 Ti (estimated).
"""

from __future__ import annotations

import functools

from absl import flags

from experiments.launch.launch_flags import define_launch_flags, launcher_from_flags
from experiments.launch.unit_task import check_no_failures
from experiments.recipes.words import configurations_from_flags
from experiments.settings import build, flags as experiment_flags
from experiments.settings.tracker_flags import TRAINS_NOTHING, define_tracker_flags, tracker_from_flags


def main() -> None:
    """Train the missing runs of all named methods, then report."""
    values = flags.FLAGS
    configs = configurations_from_flags(values)
    from experiments.deployment.writing import model_writer
    from experiments.plans.launched_cells import cell_tasks, fair_cells
    from experiments.protocols.fair import Protocol, check_unit_flags
    from experiments.protocols.fair_report import FairReport, export_advice
    from experiments.protocols.recording import record_finished
    from experiments.protocols.report_files import print_report
    from experiments.runs.start_checks import checked_with_data

    load = functools.partial(build.load_dataset_of, configs[0], values.data_dir, values.cache_dir)
    trains = not values.report_only, TRAINS_NOTHING
    checks = (
        lambda: check_unit_flags(configs[0].num_folds, values.repeats, values.fold, values.repeat),
        lambda: launcher_from_flags(values, values.runs_dir, *trains),
        lambda: tracker_from_flags(values, values.dataset, *trains),
    )
    _, launcher, tracker, dataset = checked_with_data(checks, () if values.report_only else configs, load)
    places = experiment_flags.places_from(values)
    methods = [(config,) for config in configs]
    protocol = Protocol(FairReport, dataset, methods, places, repeats=values.repeats, tracker=tracker)
    failures = []
    if launcher is not None:
        units = protocol.units(values.fold, values.repeat)
        protocol.runs.check(units)
        unit_values = experiment_flags.unit_values(values)
        tasks = cell_tasks(protocol.runs.unit_dir, fair_cells(units), unit_values, export_model=values.export_model)
        failures = launcher.run(tasks)
    elif not values.report_only:
        protocol.run(
            fold=values.fold,
            repeat=values.repeat,
            checkpoint_seconds=values.checkpoint_seconds,
            afterwards=model_writer(dataset, values.cache_dir) if values.export_model else None,
        )
    found = protocol.methods()
    print_report(protocol.report(found), protocol.report_dir, values.details)
    if values.fold is None and values.repeat is None:  # a single unit of a job array draws no picture
        protocol.follow_report()
    record_finished(protocol.finished(found, fold=values.fold, repeat=values.repeat), places)
    check_no_failures(failures)
    if advice := export_advice(found, dataset, values.data_dir):
        print(advice)


if __name__ == "__main__":
    experiment_flags.define_experiment_flags()
    experiment_flags.define_run_flags()
    experiment_flags.define(*experiment_flags.METHODS_FLAGS, "export_model")
    define_launch_flags()
    define_tracker_flags()
    experiment_flags.run_command(main)
