"""All poolings of the thesis under the same training, on one split, with intervals and a picture.

Regenerates: thesis figure 5.12 (pooling comparison; Cifar Collage and CUB there, under C2 and PNCA).
Command: python -m experiments.pooling_comparison --dataset=glyph_collage --loss=c2,pnca
Expected: thesis section 5.3.5: GSP ahead of all 13 others on Cifar Collage, GeMean next on CUB (ICCV 2023 table 2 has
    some of the figures on four data sets); the bars themselves are not printed anywhere.
Cost: at most 25 minutes on 2 CPU cores for `glyph_collage` (`--budget=demo`, the default here); `--budget=smoke` some
    minutes of tracing and a few steps each; `--budget=full` on CUB 19 minutes a training on an RTX 2080 Ti
    (estimated).
"""

from __future__ import annotations

import hashlib
import pathlib
from collections.abc import Mapping, Sequence

from absl import flags

from experiments.quiet_start import quiet_start

with quiet_start():
    from common.ops.checks import check_choice
    from experiments import build, reports
    from experiments import flags as experiment_flags
    from experiments.collage_study import start_notes
    from experiments.config import ExperimentConfig
    from experiments.evidence.recording import record_finished
    from experiments.recipes import COLLAGE_GSP, resolve, unused_overrides
    from experiments.split_study import SplitScores, cell, trained_units, write_tables
    from experiments.start_checks import check_configurations

DEMO_STEPS = 480  # so that 38 trainings take less than 25 minutes; an evaluation at half of it
DEMO_DELAY = 100  # steps before prototypes are chosen among local features


def main() -> None:
    """Trains every pooling under every loss, then reports."""
    values = flags.FLAGS
    experiment_flags.refuse_flags("method")
    experiment_flags.check_dataset_flags()
    experiment_flags.check_distinct("--loss", values.loss)
    experiment_flags.check_distinct("--pooling", values.pooling)
    for loss in values.loss:
        build.check_loss_name(loss)
    for pooling in values.pooling:
        check_choice("--pooling", pooling, build.POOLINGS)
    overrides = experiment_flags.overrides_from_flags()
    configs = [
        comparison_configuration(values.dataset, loss, pooling, values.recipe, values.budget, overrides)
        for loss in values.loss
        for pooling in values.pooling
    ]
    if not values.report_only:
        check_configurations(configs, values.data_dir)
    dataset = build.load_dataset(values.dataset, values.data_dir, values.cache_dir, configs[0].seed)
    runs = trained_units(
        dataset,
        configs,
        values.runs_dir,
        cache_dir=values.cache_dir,
        repeats=values.repeats,
        checkpoint_seconds=values.checkpoint_seconds,
        report_only=values.report_only,
    )
    digest = hashlib.sha256(repr([config.as_dict() for config in configs]).encode()).hexdigest()[:10]
    folder = pathlib.Path(values.runs_dir) / "pooling_comparison" / f"{values.dataset}-{digest}"
    print(report(configs, runs, folder, notes=start_notes(values.dataset, values.weights)))
    record_finished(unit for units in runs for unit in units)


def comparison_configuration(
    dataset: str, loss: str, pooling: str, recipe: str, budget: str, overrides: Mapping[str, object]
) -> ExperimentConfig:
    """The configuration of one method of the comparison; fields set by hand hold for the poolings that have them."""
    values = dict(overrides)
    if dataset.startswith("glyph_collage"):
        values = {**COLLAGE_GSP, "memory_delay": DEMO_DELAY, **values}
    if budget == "demo":
        values = {"max_steps": DEMO_STEPS, "steps_per_evaluation": DEMO_STEPS // 2, **values}
    unused = unused_overrides(resolve(dataset, loss, pooling, recipe, budget, {}).as_dict(), values)
    values = {name: value for name, value in values.items() if name not in unused}
    return resolve(dataset, loss, pooling, recipe, budget, values)


def report(
    configs: list, runs: list, folder: pathlib.Path, name: str = "pooling_comparison", notes: Sequence[str] = ()
) -> str:
    """Writes table and picture of what is finished; returns the text for the terminal.

    Args:
        configs: the configurations.
        runs: the finished units of each.
        folder: where the files go.
        name: of the files.
        notes: footnotes.
    """
    finished = {(config.loss, config.pooling): units for config, units in zip(configs, runs, strict=True) if units}
    scores = {key: SplitScores(units) for key, units in finished.items()}
    missing = [config.name for config, units in zip(configs, runs, strict=True) if not units]
    lines = [f"Not trained yet: {', '.join(missing)}."] if missing else []
    most = max(map(len, runs))
    fewer = [f"{'+'.join(key)} ({len(units)} of {most})" for key, units in finished.items() if len(units) < most]
    lines += [f"Not all trainings are finished: {', '.join(fewer)}."] if fewer else []
    if not scores:
        return "\n".join(lines)
    losses = list(dict.fromkeys(loss for loss, _ in scores))
    estimates = {key: {metric: of.estimate(metric) for metric in ("P@1", "MAP@R")} for key, of in scores.items()}
    rows = []
    for (loss, pooling), figures in estimates.items():
        cells = {("test", metric): cell(figure) for metric, figure in figures.items()}
        if pooling != "gap" and reports.same_trainings(finished[loss, pooling], finished.get((loss, "gap"), [])):
            difference = scores[loss, pooling].difference(scores[loss, "gap"], "MAP@R")
            cells["minus gap", "MAP@R"] = cell(difference, is_difference=True, baseline=f"{loss}+gap")
        rows.append(reports.TableRow(f"{loss}+{pooling}", cells))
    title = f"Poolings on {configs[0].dataset}, {configs[0].max_steps} steps at most, {most} training(s)"
    text = write_tables(rows, folder, name, title, notes)
    first = {pooling: figures["MAP@R"].estimate for (loss, pooling), figures in estimates.items() if loss == losses[0]}
    order = sorted(first, key=lambda pooling: first[pooling], reverse=True)
    groups = {loss: {p: estimates[loss, p]["MAP@R"] for p in order if (loss, p) in estimates} for loss in losses}
    reports.interval_bars(groups, folder / f"{name}.png", title=title)
    return "\n".join([text, *lines, f"Figure: {folder / f'{name}.png'}"])


if __name__ == "__main__":
    experiment_flags.define_experiment_flags(build.DATASETS, build.LOSSES, build.POOLINGS)
    experiment_flags.define_run_flags(units=())
    for name, default in {"dataset": "glyph_collage", "loss": "c2,pnca", "budget": "demo"}.items():
        flags.FLAGS.set_default(name, default)
    flags.FLAGS.set_default("pooling", ",".join(build.POOLINGS))
    experiment_flags.run_command(main)
