"""One model to deploy, trained on all training classes as the folds were.

The fair protocol measures a method and leaves one model per fold, each trained without that fold's classes. This
command trains on all of them, for the median of the steps that validation selected in the folds, or makes the model
that validation chose there (`--recipe=own_photos`). It writes model.keras with its card, and prints it beside the
folds' single models and their concatenation on the test classes.

Regenerates: no table of the thesis; docs/deploy.md.
Command: python -m experiments.train_final --run=runs/fair/glyphs/c2+gap-0123456789 (a method's folder from
    `fair_eval`; add --weights=FILE.npz if the folds used a file)
Expected: on glyphs (`--budget=demo`), c2+gap: see docs/deploy.md.
Cost: that of one fold, with a third more images.
"""

from __future__ import annotations

import dataclasses

from absl import flags

from common.errors import check_all
from common.progress import write_notice
from experiments.deployment.final_run import comparison, final_configuration, read_study, train_final
from experiments.preparation.machine import device_line
from experiments.reports.plain_tables import filled
from experiments.settings import build, flags as experiment_flags
from experiments.settings.tracker_flags import define_tracker_flags, tracker_from_flags


def main() -> None:
    """Train the final model, write it and print it beside the folds."""
    values = flags.FLAGS
    write_notice(device_line())
    study = read_study(values.run)
    config, tracker, dataset = check_all(
        [
            lambda: final_configuration(study, values.weights),
            lambda: tracker_from_flags(values, study.config.dataset, True, ""),
            lambda: build.load_dataset_of(study.config, values.data_dir, values.cache_dir),
        ]
    )
    places = dataclasses.replace(experiment_flags.places_from(values), runs_dir=values.runs_dir or study.runs_dir)
    seconds = values.checkpoint_seconds
    written = train_final(study, dataset, config, places, checkpoint_seconds=seconds, tracker=tracker)
    print(*map(filled, written.notes), sep="\n")
    print(comparison(study, written.path.parent))
    print(*written.agreement.sentences(), f"Written: {written.path} and {written.card}", sep="\n")


if __name__ == "__main__":
    experiment_flags.define_plugin_flag()
    flags.DEFINE_string("run", None, "Folder of a method, all of whose folds have finished.", required=True)
    flags.DEFINE_string("weights", None, "File of initial weights, where the folds began with one.")
    flags.DEFINE_string("runs_dir", None, "Folder for results (default: that of the folds).")
    experiment_flags.define("data_dir", "cache_dir", *experiment_flags.UNIT_FLAGS)
    define_tracker_flags()
    experiment_flags.run_command(main)
