"""Collages of a relevant image and three distractors: average pooling and GSP.

Regenerates: thesis figure 5.5 (Cifar Collage: bars of MAP@R for GAP, GSP, GSP + L_ZS and distilled data), on glyphs.
Command: python -m experiments.collage_study --repeats=3; as in the thesis, python -m experiments.collage_study
    --dataset=cifar_collage --data_dir=DIR --weights=resnet20.npz --starts=pretrained --budget=full
    (`experiments.pretrain` makes the file from CIFAR-100)
Expected: thesis section 6.2: 17 points of MAP@R above GAP on Cifar Collage; the bars themselves are not printed. It
    starts from a CIFAR-100 classifier; we chose the other two starts and the number of seeds.
Cost: about a minute a run, 24 runs and one pre-training on 2 CPU cores; `--budget=smoke` two minutes.
"""

from __future__ import annotations

import functools
import hashlib
import pathlib

from absl import flags

from common.errors import check_choice
from common.progress import write_notice
from experiments.plans.study import StudyOptions
from experiments.preparation.machine import device_line
from experiments.protocols.fair import trained_units
from experiments.protocols.recording import record_finished
from experiments.protocols.report_files import print_report
from experiments.reports.tables import write_table
from experiments.rows.store import RecordedMethod, StudyRows
from experiments.settings import build
from experiments.settings import flags as experiment_flags
from experiments.studies import collages


def main() -> None:
    """Pre-train the backbone if a start needs it, train all methods, report."""
    values = flags.FLAGS
    experiment_flags.refuse_flags(values, "method", "pooling")
    check_choice("--dataset", values.dataset, collages.COLLAGES)
    experiment_flags.check_dataset_flags(values)
    experiment_flags.set_recipe(values)
    experiment_flags.check_distinct("--loss", values.loss)
    if not values.report_only:
        write_notice(device_line())
    starts = collages.starts_of(values.dataset, values.weights, values.starts)
    datasets = {
        suffix: build.load_dataset(values.dataset + suffix, values.data_dir, values.cache_dir, values.seed or 0)
        for suffix in ("", "_distilled")
    }
    overrides, places = experiment_flags.overrides_from_flags(values), experiment_flags.places_from(values)
    options = StudyOptions(values.dataset, values.budget, values.recipe, overrides=overrides)
    trained = functools.partial(
        trained_units,
        places=places,
        repeats=values.repeats,
        checkpoint_seconds=values.checkpoint_seconds,
        report_only=values.report_only,
    )
    methods: list[RecordedMethod] = []
    for start in starts:
        weights = "none"
        if start != "scratch":
            weights = values.weights or collages.pretrained_backbone(options, places, datasets[""])
        for loss in values.loss:
            methods += collages.trained_methods(options, trained, datasets, loss, start, weights)
    if not methods:
        return
    rows = collages.collage_rows(StudyRows.of_methods(methods))
    title = f"{values.dataset}, {values.repeats} seed(s)"
    named = [values.dataset, values.loss, starts, overrides]
    digest = hashlib.sha256(repr(named).encode()).hexdigest()[:10]
    folder = pathlib.Path(values.runs_dir) / "collage_study" / digest
    notes = [*collages.gain_sentences(rows), *collages.start_notes(values.dataset, values.weights)]
    print_report(write_table(rows, folder, "collage_study", title, notes), folder, values.details)
    print(f"Tables (--details prints them): {folder}")
    record_finished((unit for method in methods for unit in method.units), places)


if __name__ == "__main__":
    experiment_flags.define_experiment_flags(collages.COLLAGES)
    experiment_flags.define_run_flags(units=())
    starts = ", ".join(collages.STARTS)
    flags.DEFINE_list("starts", None, f"Where backbones start: {starts}; by default all that can be made.")
    for name, default in {"dataset": collages.GLYPHS, "loss": "pnca", "budget": "demo", "repeats": 3}.items():
        flags.FLAGS.set_default(name, default)
    experiment_flags.run_command(main)
