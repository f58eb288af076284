"""The "Revisiting" protocol's report: each metric's best test epoch, and unselected figures.

For each run and metric, the benchmark's own script takes the largest test value of any epoch. Beside it stand the last
epoch, without selection, and the epoch that held-out training classes choose.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import ClassVar

import numpy as np

from experiments import reports
from experiments.protocols.conventional_report import ConventionalReport
from experiments.protocols.report_files import recall_of
from experiments.published.conventional import printed_row, revisiting_conditions, revisiting_published
from experiments.reports.collect import UnitRun
from experiments.reports.intervals import interval_of_runs
from experiments.reports.verdicts import error_of_mean
from experiments.rows.scores import cell
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
    """Choose one of each curve `[epochs]`: `[units]`, by metrics that all recorded."""
    curves = {metric: [unit.validation_curve(metric)[1] for unit in units] for metric in metrics_of(dataset)}
    return {metric: np.array([*map(choose, of)]) for metric, of in curves.items() if all(map(len, of))}


def final_figures(units: Sequence[UnitRun], dataset: str) -> dict[str, np.ndarray]:
    """Return the test figures of the final weights, `[units]` by metric."""
    found = [recall_of(unit, dataset) for unit in units]
    figures = {metric: np.array([each[metric] for each in found]) for metric in found[0]}
    return {**figures, "NMI": np.array([normalized_mutual_information(unit.test_embeddings()) for unit in units])}


class RevisitingReport(ConventionalReport):
    """One method's runs under both stopping rules, and their report; see `ConventionalReport`."""

    protocol: ClassVar[str] = '"Revisiting"'
    file_name: ClassVar[str] = "revisiting"
    has_recall: ClassVar[bool] = False

    def rows(self) -> list[reports.TableRow]:
        """Build the complete rows: best test epoch, last epoch, unbiased, and optimism."""
        biased, unbiased = (
            None
            if runs is None or runs.missing(1, self.repeats)
            else [runs.finished[0, k] for k in range(self.repeats)]
            for runs in (self.runs, self.held_out_runs)
        )
        dataset, found = self.config.dataset, dict[str, dict[str, np.ndarray]]()
        if biased:
            found[_BEST] = curve_figures(biased, dataset, np.max)
            unrecorded = [metric for metric in metrics_of(dataset) if metric not in found[_BEST]]
            if unrecorded:
                final = final_figures(biased, dataset)
                found[_BEST_EPOCH] = {metric: final[metric] for metric in unrecorded}
            found["last epoch"] = curve_figures(biased, dataset, lambda values: values[-1])
        if unbiased:
            found["unbiased"] = final_figures(unbiased, dataset)
        cells = {
            label: {metric: self._cell(metric, values, label) for metric, values in figures.items()}
            for label, figures in found.items()
        }
        if biased and unbiased:
            gaps = {metric: of.mean() - found["unbiased"][metric].mean() for metric, of in found[_BEST].items()}
            cells["optimism: best minus unbiased"] = {
                metric: cell(float(gap), is_difference=True) for metric, gap in gaps.items()
            }
        return self.table_rows(cells)

    def untrained_rows(self) -> list[reports.TableRow]:
        """Return none: the benchmark's untrained networks are a table of their own."""
        return []

    def optimism_line(self) -> None:
        """Return None: the optimism of each metric is a row."""

    @staticmethod
    def explanations(optimism: Sequence[str]) -> list[str]:
        """Return what stands below a table."""
        return [EXPLANATION]

    def _cell(self, metric: str, values: np.ndarray, label: str) -> reports.TableCell:
        spread = float(values.std(ddof=1)) if len(values) > 1 else None
        estimate = reports.FairEstimate(float(values.mean()), spread, interval_of_runs(values))
        config = self.config
        row = config.loss, config.embedding_dim, config.backbone
        published, printed = revisiting_published(config.dataset, row[0], metric, *row[1:]), printed_row(*row)
        if label not in (_BEST, _BEST_EPOCH) or (published is None and metric not in ("R@1", "NMI")):
            return reports.TableCell(estimate)
        stated = {**self.runs.stated(config.as_dict()), "repeats": self.repeats}
        conditions, departed = revisiting_conditions(*row), departures(config) if published else {}
        reasons = reports.incomparable_reasons(stated, conditions, self.runs.deviations, departed)
        if published and printed and (difference := printed.difference(config.dataset)):
            reasons.append(difference)
        if label == _BEST_EPOCH:
            reasons.append("the figure is of the epoch of the best R@1, the table's of the best epoch of this metric")
        error = error_of_mean(published.std, PRINTED_REPEATS) if published else None
        return reports.TableCell(estimate, reports.Target(published, reasons=tuple(reasons), error=error))
