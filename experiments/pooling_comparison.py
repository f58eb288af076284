"""All poolings of the thesis, trained alike on one split, with intervals.

Regenerates: thesis figure 5.12 (pooling comparison; Cifar Collage and CUB there, under C2 and PNCA).
Command: python -m experiments.pooling_comparison --dataset=glyph_collage --loss=c2,pnca
Expected: thesis section 5.3.5: GSP ahead of all 13 others on Cifar Collage, GeMean next on CUB (ICCV 2023 table 2 has
    some of the figures on four data sets); the bars themselves are not printed.
Cost: at most 25 minutes on 2 CPU cores for `glyph_collage` (`--budget=demo`, the default here); `--budget=smoke` some
    minutes of tracing and a few steps each; `--budget=full` on CUB 19 minutes per run on an RTX 2080 Ti
    (estimated).
"""

from __future__ import annotations

import dataclasses
import functools
import hashlib
import pathlib

from absl import flags

from common.errors import check_all
from experiments.plans.study import StudyOptions
from experiments.protocols.fair import trained_units
from experiments.protocols.recording import record_finished
from experiments.protocols.report_files import print_report
from experiments.runs.start_checks import checked_with_data
from experiments.settings import build
from experiments.settings import flags as experiment_flags
from experiments.studies.collages import start_notes
from experiments.studies.poolings import comparison_configuration, report


def main() -> None:
    """Train every pooling under every loss, then report."""
    values = flags.FLAGS
    check_all(
        [
            lambda: experiment_flags.refuse_flags(values, "method"),
            lambda: experiment_flags.check_dataset_flags(values),
            lambda: experiment_flags.check_distinct("--loss", values.loss),
            lambda: experiment_flags.check_distinct("--pooling", values.pooling),
            *(functools.partial(build.check_loss_name, loss) for loss in values.loss),
            *(functools.partial(build.check_pooling_name, pooling) for pooling in values.pooling),
        ]
    )
    experiment_flags.set_recipe(values)
    options = StudyOptions(
        values.dataset, values.budget, values.recipe, overrides=experiment_flags.overrides_from_flags(values)
    )
    configs = [
        comparison_configuration(dataclasses.replace(options, pooling=pooling), loss)
        for loss in values.loss
        for pooling in values.pooling
    ]
    load = functools.partial(build.load_dataset_of, configs[0], values.data_dir, values.cache_dir)
    (dataset,) = checked_with_data((), () if values.report_only else configs, load)
    runs = trained_units(
        dataset,
        configs,
        experiment_flags.places_from(values),
        repeats=values.repeats,
        checkpoint_seconds=values.checkpoint_seconds,
        report_only=values.report_only,
    )
    digest = hashlib.sha256(repr([config.stored() for config in configs]).encode()).hexdigest()[:10]
    folder = pathlib.Path(values.runs_dir) / "pooling_comparison" / f"{values.dataset}-{digest}"
    text = report(configs, runs, folder, notes=start_notes(values.dataset, values.weights))
    print_report(text, folder, values.details)
    record_finished((unit for units in runs for unit in units), experiment_flags.places_from(values))


if __name__ == "__main__":
    experiment_flags.define_experiment_flags()
    experiment_flags.define_run_flags(units=())
    for name, default in {"dataset": "glyph_collage", "loss": "c2,pnca", "budget": "demo"}.items():
        flags.FLAGS.set_default(name, default)
    flags.FLAGS.set_default("pooling", ",".join(build.MAP_POOLINGS))
    experiment_flags.run_command(main)
