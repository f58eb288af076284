"""The "Revisiting" protocol's report: each metric's best test epoch, and unselected figures.

For each run and metric, the benchmark's own script takes the largest test value of any epoch. Beside it stand the last
epoch, without selection, and the epoch that held-out training classes choose.
"""

from __future__ import annotations

import pathlib
from collections.abc import Callable, Mapping, Sequence

import numpy as np

from experiments import reports
from experiments.protocols.conventional_report import ConventionalReport
from experiments.protocols.feature_report import recall_of, write_parts
from experiments.protocols.report_files import write_report_files
from experiments.published.revisiting import printed_row, revisiting_conditions, revisiting_published
from experiments.reports import best_of_repeats
from experiments.reports.collect import UnitRun
from experiments.reports.intervals import interval
from experiments.runs.unit import normalized_mutual_information
from experiments.settings.recipes import departures, recall_at

PRINTED_REPEATS = 5
_BEST, _BEST_EPOCH = "best test epoch of each metric", "epoch of the best R@1"
EXPLANATION = (
    "Best test epoch: the maximum over all epochs on the test set, of each metric apart, as the benchmark's published "
    "script selects what the dissertation prints; it is optimistic. Last epoch: no choice at all. Unbiased: held-out "
    "training classes choose the epoch (that model learns from fewer classes), and the test set is looked at once. "
    "Runs that did not record an R@k at each epoch have that of the epoch of the best R@1. "
    "± is the standard deviation over repeats. NMI here is of as many clusters as the test set has classes; the "
    "benchmark's k-means has as many as the training set."
)


def metrics_of(dataset: str) -> tuple[str, ...]:
    """Return the metrics of a data set's table."""
    return (*(f"R@{k}" for k in recall_at(dataset)), "NMI")


def curve_figures(units: Sequence[UnitRun], dataset: str, choose: Callable) -> dict[str, np.ndarray]:
    """Return a figure per unit `[units]`, by metric, if all recorded it.

    Args:
        units: finished runs that were evaluated on the test set at each epoch.
        dataset: of them.
        choose: a function of a metric's values over epochs `[epochs]`, such as `np.max`.
    """
    curves = {metric: [unit.validation_curve(metric)[1] for unit in units] for metric in metrics_of(dataset)}
    return {metric: np.array([*map(choose, of)]) for metric, of in curves.items() if all(map(len, of))}


def final_figures(units: Sequence[UnitRun], dataset: str) -> dict[str, np.ndarray]:
    """Return the test figures of the final weights, `[units]` by metric."""
    found = [recall_of(unit, dataset) for unit in units]
    figures = {metric: np.array([each[metric] for each in found]) for metric in found[0]}
    return {**figures, "NMI": np.array([normalized_mutual_information(unit.test_embeddings()) for unit in units])}


def rows_of(method: ConventionalReport) -> list[reports.TableRow]:
    """Build the complete rows: best test epoch, last epoch, unbiased, and optimism."""
    sides = {
        name: [runs.finished[0, repeat] for repeat in range(method.repeats)]
        for name, runs in (("biased", method.runs), ("unbiased", method.held_out_runs))
        if runs is not None and not runs.missing(1, method.repeats)
    }
    dataset, found = method.config.dataset, {}
    if "biased" in sides:
        found[_BEST] = curve_figures(sides["biased"], dataset, np.max)
        unrecorded = [metric for metric in metrics_of(dataset) if metric not in found[_BEST]]
        if unrecorded:
            final = final_figures(sides["biased"], dataset)
            found[_BEST_EPOCH] = {metric: final[metric] for metric in unrecorded}
        found["last epoch"] = curve_figures(sides["biased"], dataset, lambda values: values[-1])
    if "unbiased" in sides:
        found["unbiased"] = final_figures(sides["unbiased"], dataset)
    size, rows = f"{method.config.embedding_dim}-D", []
    for label, figures in found.items():
        cells = {metric: _cell(method, metric, values, label) for metric, values in figures.items()}
        rows.append(_row(method, label, size, cells))
    if len(sides) == 2:
        best, unbiased = found[_BEST], found["unbiased"]
        gaps = {metric: float(best[metric].mean() - unbiased[metric].mean()) for metric in best}
        cells = {
            metric: reports.TableCell(reports.FairEstimate(gap), is_difference=True) for metric, gap in gaps.items()
        }
        rows.append(_row(method, "optimism: best minus unbiased", size, cells))
    return rows


def write_report(
    methods: Sequence[ConventionalReport], folder: pathlib.Path, title: str, notes: Sequence[str] = ()
) -> str:
    """Write `revisiting.md`, `.csv`, `.tex` and `validation_curves.png`; return the terminal's text."""
    rows = [row for method in methods for row in rows_of(method)]
    curves = [curve for method in methods for curve in method.curves()]
    title = title.replace("Conventional", '"Revisiting"')
    table, picture = write_report_files(
        rows, curves, folder, title, metric="P@1", explanations=[EXPLANATION], notes=notes, name="revisiting"
    )
    parts = write_parts({name: units for method in methods for name, units in method.finished_by_side()}, folder)
    lines = [line for method in methods for line in method.partial_lines()]
    return "\n".join(part for part in (table, parts, *lines, picture) if part)


def _row(method: ConventionalReport, label: str, size: str, cells: Mapping[str, reports.TableCell]):
    name = f"{method.config.name}, {label}"
    return reports.TableRow(name, {(size, metric): cell for metric, cell in cells.items()})


def _cell(method: ConventionalReport, metric: str, values: np.ndarray, label: str) -> reports.TableCell:
    count = len(values)
    spread, bounds = None, None
    if count > 1:
        spread = float(values.std(ddof=1))
        bounds = interval(float(values.mean()), None, (spread**2 / count, count - 1), best_of_repeats.CONFIDENCE)
    estimate = reports.FairEstimate(float(values.mean()), spread, bounds)
    config = method.config
    row = config.loss, config.embedding_dim, config.backbone
    published, printed = revisiting_published(config.dataset, row[0], metric, *row[1:]), printed_row(*row)
    if label not in (_BEST, _BEST_EPOCH) or (published is None and metric not in ("R@1", "NMI")):
        return reports.TableCell(estimate)
    stated = {**method.runs.stated(config.as_dict()), "repeats": method.repeats}
    conditions, departed = revisiting_conditions(*row), departures(config) if published else {}
    reasons = reports.incomparable_reasons(stated, conditions, method.runs.deviations, departed)
    if published and printed and (difference := printed.difference(config.dataset)):
        reasons.append(difference)
    if label == _BEST_EPOCH:
        reasons.append("the figure is of the epoch of the best R@1, the table's of the best epoch of this metric")
    error = reports.error_of_mean(published.std, PRINTED_REPEATS) if published else None
    return reports.TableCell(estimate, reports.Target(published, reasons=tuple(reasons), error=error))
