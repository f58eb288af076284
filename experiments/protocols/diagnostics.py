"""Diagnostics of finished runs, and their rank correlations with retrieval."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

from common import diagnostics, retrieval
from common.diagnostics.diagnostic_names import NAMES
from common.errors import check_given
from common.files import read_json, write_json
from common.retrieval.metrics import TABLE_METRICS
from experiments import reports
from experiments.reports.correlations import spearman_interval
from experiments.rows.rows import Row
from experiments.runs.trained_model import load_trained_model

GAP = "generalisation gap"
FEWEST_METHODS = 5  # that a bootstrap over methods can say anything about


class Point(NamedTuple):
    """One run."""

    method: str  # the configuration that it belongs to
    fold: int
    label: str
    scores: dict[str, float]  # test metrics, as fractions
    figures: dict[str, float]  # diagnostics by name; those of training embeddings begin with "training "


def training_diagnostics(row: Row, dataset, cache_dir: str | None, clustering: bool) -> dict[str, float]:
    """Compute training images' diagnostics and metrics, cached in `training_diagnostics.json`."""
    path = row.folder / "training_diagnostics.json"
    stored = read_json(path)
    if stored is not None and ("NMI" in stored["figures"] or not clustering):
        return stored
    trained = load_trained_model(row.folder, dataset=dataset, cache_dir=cache_dir)
    embeddings = trained.model.embed(trained.inputs(trained.training))
    figures = diagnostics.diagnose(embeddings, trained.training.labels, clustering=clustering).as_dict()
    scores = retrieval.evaluate_retrieval(embeddings, trained.training.labels).as_dict()
    write_json(path, {"figures": figures, "scores": {metric: scores[metric] for metric in TABLE_METRICS}})
    return check_given("diagnostics", read_json(path))


def points_of(runs: Iterable[Row], training: Callable | None, clustering: bool) -> list[Point]:
    """Convert finished runs to points."""
    points = []
    for row in runs:
        arrays, scores, (fold, repeat) = row.test_embeddings(), row["test"], row.place
        found = diagnostics.diagnose(arrays["queries"], arrays["query_labels"], clustering=clustering)
        figures = dict(found.figures)
        if training is not None:
            of_training = training(row)
            figures |= {f"training {name}": value for name, value in of_training["figures"].items() if name in NAMES}
            figures |= {f"{GAP} of {name}": scores[name] - value for name, value in of_training["scores"].items()}
        label = f"{row['method']} fold {fold} repeat {repeat}"
        of_test = {name: scores[name] for name in TABLE_METRICS if name in scores}
        points.append(Point(row.folder.parent.name, fold, label, of_test, figures))
    return points


def correlation_table(points: Sequence[Point], dataset: str) -> reports.Table:
    """Tabulate Spearman's coefficient, with interval, of each diagnostic and metric.

    An interval that excludes zero is marked only if every method has repeats: with one run per fold, a method's rank
    may be that of its seed.
    """
    groups = [point.method for point in points]
    names = [name for name in points[0].figures if all(name in point.figures for point in points)]
    metrics, objections = _metrics(points), _objections(points)
    rows = []
    for name in names:
        values = [point.figures[name] for point in points]
        cells = [f"{min(values):.3f} to {max(values):.3f}"]
        for metric in metrics:
            if len(set(values)) == 1:
                cells.append("does not vary")
                continue
            found = spearman_interval(values, [point.scores[metric] for point in points], groups)
            mark = "*" if found.excludes_zero and not objections else ""
            cells.append(f"{found.estimate:+.2f} [{found.low:+.2f}, {found.high:+.2f}]{mark}")
        rows.append([name, *cells])
    best = {metric: [100 * point.scores[metric] for point in points] for metric in metrics}
    count = f"{len(points)} runs of {len(set(groups))} methods"
    notes = [
        f"Spearman's rank correlation over {count}; in brackets the 95 % percentile bootstrap interval over whole "
        "methods.",
        *(objections or ["* the interval excludes zero. With this many rows, one in twenty would do so by chance."]),
        *(f"{metric} of these runs: {min(values):.1f} to {max(values):.1f} %." for metric, values in best.items()),
    ]
    return reports.Table(f"Diagnostics and retrieval on {dataset}: {count}", ["", "range", *metrics], rows, notes)


def _metrics(points: Sequence[Point]) -> list[str]:
    """List the columns of tables that all runs have, MAP@R first."""
    return [name for name in TABLE_METRICS[::-1] if all(name in point.scores for point in points)]


def _objections(points: Sequence[Point]) -> list[str]:
    """List why no interval of these runs may be marked, if so."""
    said = []
    if (count := len({point.method for point in points})) < FEWEST_METHODS:
        said.append(f"{count} methods are too few: the intervals are too short, and none is marked.")
    repeats = Counter((point.method, point.fold) for point in points)
    once = {method for method, _ in repeats} - {method for (method, _), count in repeats.items() if count > 1}
    if once:
        said.append(
            f"Methods with one run per fold: {len(once)}. No interval is marked; --repeats=2 adds a second run."
        )
    return said


def runs_table(points: Sequence[Point]) -> reports.Table:
    """Tabulate every run's metrics, in per cent, and diagnostics."""
    names, metrics = list(points[0].figures), _metrics(points)
    rows = [
        [
            point.label,
            *(f"{100 * point.scores[metric]:.2f}" for metric in metrics),
            *(f"{point.figures[name]:.4f}" if name in point.figures else "-" for name in names),
        ]
        for point in points
    ]
    units = [f"{name} (share)" if name.startswith(GAP) else name for name in names]
    return reports.Table("", ["run", *(f"{metric} (%)" for metric in metrics), *units], rows)
