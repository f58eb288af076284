"""Which diagnostic of an embedding goes with retrieval? Rank correlations over the finished runs of one data set.

Every finished fold and repeat under `--runs_dir` is one point: its diagnostics, of the test embeddings and with
`--training` also of those of the images it learnt from, against its MAP@R on unseen classes. Folds of one method
resemble each other, so the intervals draw whole methods.

Regenerates: Milbich's dissertation, figure 2.4 (R@1 against pi_intra, pi_inter, pi_ratio and rho), on one's own runs.
Command: python -m experiments.diagnostics_study --runs_dir=runs --dataset=glyphs [--training] [--clustering]
Expected: correlation of R@1 with rho of the training embeddings -.63 or lower on each of CUB, Cars196 and SOP; with the
    others it changes from data set to data set (the figure prints no other number that is legible).
Cost: a second a run; `--training` embeds the training images, once (glyphs: some seconds a run on a CPU).
"""

from __future__ import annotations

import functools
import pathlib
import sys
from collections.abc import Callable, Sequence
from typing import NamedTuple

from absl import flags

from experiments.quiet_start import quiet_start

with quiet_start():
    from common.ops.checks import InvalidInput, check_choice, check_given
    from common.retrieval import diagnose, evaluate_retrieval
    from common.retrieval.diagnostics import NAMES
    from common.training import read_json, write_json, write_text
    from experiments import build, reports
    from experiments import flags as experiment_flags
    from experiments.config import CONVENTIONAL_PROTOCOLS
    from experiments.reports.collect import UnitRun
    from experiments.reports.correlations import spearman_interval
    from experiments.selection import image_batches
    from experiments.splits import split_of
    from experiments.trained_model import load_trained_model

METRICS = ("MAP@R", "P@1")
GAP = "generalisation gap"
FEWEST_METHODS = 5  # that a bootstrap over methods can say anything about


class Point(NamedTuple):
    """One run.

    Attributes:
        method: the configuration that it belongs to.
        label: method, fold and repeat in words.
        scores: test metrics, as fractions.
        figures: diagnostics by name; those of training embeddings begin with "training ".
    """

    method: str
    label: str
    scores: dict[str, float]
    figures: dict[str, float]


def training_diagnostics(unit: UnitRun, dataset, cache_dir: str | None, clustering: bool) -> dict[str, float]:
    """Diagnostics of the images that a run learnt from, and their metrics; kept in `training_diagnostics.json`.

    Args:
        unit: finished.
        dataset: as loaded.
        cache_dir: the folder for prepared images, or None for the default.
        clustering: also NMI.
    """
    path = unit.path / "training_diagnostics.json"
    stored = read_json(path)
    if stored is not None and ("NMI" in stored["figures"] or not clustering):
        return stored
    trained = load_trained_model(unit.path, dataset=dataset, cache_dir=cache_dir)
    training = split_of(trained.dataset, trained.config, unit.fold, unit.repeat).training
    embeddings = trained.model.embed(image_batches(training, trained.config, trained.dataset))
    figures = diagnose(embeddings, training.labels, clustering=clustering).as_dict()
    scores = evaluate_retrieval(embeddings, training.labels).as_dict()
    write_json(path, {"figures": figures, "scores": {metric: scores[metric] for metric in METRICS}})
    return check_given("diagnostics", read_json(path))


def points_of(methods: Sequence[reports.MethodRuns], training: Callable | None, clustering: bool) -> list[Point]:
    """The finished runs as points.

    Args:
        methods: what is on disk.
        training: called with a run, gives what `training_diagnostics` does; or None.
        clustering: also NMI.
    """
    points = []
    for method in methods:
        for (fold, repeat), unit in method.finished.items():
            arrays, scores = unit.test_embeddings(), unit.test_metrics()
            found = diagnose(arrays["queries"], arrays["query_labels"], clustering=clustering)
            figures = dict(found.figures)
            if training is not None:
                of_training = training(unit)
                figures |= {
                    f"training {name}": value for name, value in of_training["figures"].items() if name in NAMES
                }
                figures |= {f"{GAP} of {name}": scores[name] - of_training["scores"][name] for name in METRICS}
            label = f"{method.method} fold {fold} repeat {repeat}"
            points.append(Point(method.path.name, label, {name: scores[name] for name in METRICS}, figures))
    return points


def correlation_table(points: Sequence[Point], dataset: str) -> reports.PlainTable:
    """Spearman's coefficient of each diagnostic with each metric, and its interval."""
    groups = [point.method for point in points]
    names = [name for name in points[0].figures if all(name in point.figures for point in points)]
    rows, enough = [], len(set(groups)) >= FEWEST_METHODS
    for name in names:
        values = [point.figures[name] for point in points]
        cells = [f"{min(values):.3f} to {max(values):.3f}"]
        for metric in METRICS:
            if len(set(values)) == 1:
                cells.append("does not vary")
                continue
            found = spearman_interval(values, [point.scores[metric] for point in points], groups)
            cells.append(
                f"{found.estimate:+.2f} [{found.low:+.2f}, {found.high:+.2f}]{'*' * (found.excludes_zero and enough)}"
            )
        rows.append([name, *cells])
    few = (
        [] if enough else [f"{len(set(groups))} methods are too few: the intervals are too short, and none is marked."]
    )
    best = {metric: [100 * point.scores[metric] for point in points] for metric in METRICS}
    notes = [
        "Spearman's rank correlation over runs; in brackets the 95 % percentile bootstrap interval over whole methods. "
        "* the interval excludes zero. With this many rows, one in twenty would do so by chance.",
        *few,
        *(f"{metric} of these runs: {min(values):.1f} to {max(values):.1f} %." for metric, values in best.items()),
    ]
    count = f"{len(points)} runs of {len(set(groups))} methods"
    return reports.PlainTable(f"Diagnostics and retrieval on {dataset}: {count}", ["", "range", *METRICS], rows, notes)


def runs_table(points: Sequence[Point]) -> reports.PlainTable:
    """Every run with its metrics, in per cent, and diagnostics."""
    names = list(points[0].figures)
    rows = [
        [
            point.label,
            *(f"{100 * point.scores[metric]:.2f}" for metric in METRICS),
            *(f"{point.figures[name]:.4f}" if name in point.figures else "-" for name in names),
        ]
        for point in points
    ]
    units = [f"{name} (share)" if name.startswith(GAP) else name for name in names]
    return reports.PlainTable("", ["run", *(f"{metric} (%)" for metric in METRICS), *units], rows)


def main() -> None:
    """Reads the runs, writes the tables beside them and prints the correlations."""
    values = flags.FLAGS
    check_choice("--dataset", values.dataset, build.DATASETS)
    check_choice("--protocol", values.protocol, ("fair", *CONVENTIONAL_PROTOCOLS))
    if not values.training:
        experiment_flags.refuse_flags("data_dir", "cache_dir", "seed", because="only --training reads the data")
    found_methods = reports.collect(values.runs_dir, values.protocol, values.dataset)
    for problem in (problem for method in found_methods for problem in method.problems):
        print(f"warning: {problem}", file=sys.stderr)
    methods = [method for method in found_methods if method.finished]
    if len(methods) < 3:
        raise InvalidInput(
            f"Invalid --runs_dir: received {values.runs_dir} with {len(methods)} method(s) that have finished runs in "
            f"{values.protocol}/{values.dataset}, expected three or more. "
            f"Train them: python -m experiments.fair_eval --dataset={values.dataset} --loss=pnca,c2,ms --budget=demo"
        )
    training = None
    if values.training:
        dataset = build.load_dataset(values.dataset, values.data_dir, values.cache_dir, values.seed)
        options = {"dataset": dataset, "cache_dir": values.cache_dir, "clustering": values.clustering}
        training = functools.partial(training_diagnostics, **options)
    points = points_of(methods, training, values.clustering)
    found = correlation_table(points, values.dataset)
    folder = pathlib.Path(values.runs_dir) / values.protocol / values.dataset / "reports"
    write_text(folder / "diagnostics.md", found.as_markdown())
    write_text(folder / "diagnostics.csv", runs_table(points).as_csv())
    print(found.as_text())
    print(f"Every run: {folder / 'diagnostics.csv'}")


if __name__ == "__main__":
    flags.DEFINE_string("dataset", "glyphs", "Data set whose runs are looked at.")
    flags.DEFINE_string("protocol", "fair", "Protocol whose runs are looked at: a folder of --runs_dir.")
    flags.DEFINE_string("runs_dir", "runs", "Folder of results.")
    flags.DEFINE_boolean("training", False, "Also diagnostics of the training embeddings, and the generalisation gap.")
    flags.DEFINE_boolean("clustering", False, "Also NMI of k-means.")
    flags.DEFINE_integer("seed", 0, "Seed that the data were loaded with.", lower_bound=0)
    flags.DEFINE_string("data_dir", None, "Folder of the data set's official files; none for embedded data sets.")
    flags.DEFINE_string("cache_dir", None, "Folder for prepared images (default: ~/.cache/deep_metric_learning).")
    experiment_flags.run_command(main)
