"""Reports of the conventional and the "Revisiting" protocol, beside the unbiased figure.

Conventional: best and mean repeats, and the optimism. "Revisiting": for each run and metric, the benchmark's own script
takes the largest test value of any epoch. Beside it stand the last epoch, without selection, and the epoch that
held-out training classes choose.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Mapping, Sequence
from typing import ClassVar

import numpy as np

from common.errors import check_given
from common.retrieval.metrics import TABLE_METRICS
from experiments import reports
from experiments.parts.datasets import traits_of
from experiments.protocols.report import MethodReport
from experiments.protocols.report_files import recall_of
from experiments.published import conventional as tables
from experiments.reports.best_of_repeats import best_estimate, best_repeat, mean_estimate, optimism_estimate
from experiments.reports.intervals import interval_of_runs
from experiments.reports.scores import Scores
from experiments.reports.tables import cell
from experiments.reports.verdicts import error_of_mean
from experiments.rows.rows import Row
from experiments.rows.run_folders import finished
from experiments.runs.evaluation import normalized_mutual_information
from experiments.settings.config import ExperimentConfig
from experiments.settings.splits import MONITORED

EXPLANATION = (
    "Optimism of the protocol: best of the repeats that stop on the test set, minus mean of the repeats that stop on "
    "held-out training classes (the unbiased figure; those also learn from fewer classes). The first is what "
    "conventional tables print. P@1 is their R@1."
)


@dataclasses.dataclass(frozen=True)
class ConventionalReport(MethodReport):
    """One method's runs under both stopping rules, and their report."""

    title: ClassVar[str] = "Conventional"
    without: ClassVar[str] = "--repeat and --monitor"
    config: ExperimentConfig  # stops on the test set
    held_out_config: ExperimentConfig  # stops on held-out classes
    runs: Sequence[Row]  # on disk, of the first
    held_out_runs: Sequence[Row] | None  # likewise of the second; None where it is not wanted
    repeats: int  # how many of each a complete study has

    @functools.cached_property
    def biased(self) -> Scores | None:
        """Scores of the repeats that stopped on the test set; `None` until complete."""
        return self._scores(self.runs)

    @functools.cached_property
    def unbiased(self) -> Scores | None:
        """Scores of the repeats that stopped on held-out classes; `None` until complete."""
        return self._scores(self.held_out_runs)

    def rows(self, reference: MethodReport | None = None, called: str = "") -> list[reports.TableRow]:
        """Return the complete rows: biased best and mean, unbiased mean, difference."""
        biased, unbiased = self.biased, self.unbiased
        if biased and unbiased:
            biased.check_comparable(unbiased)
        found: dict[str, dict[str, reports.TableCell]] = {}
        for metric in TABLE_METRICS:
            if any(metric not in side.metrics for side in (biased, unbiased) if side):
                continue
            decides, estimates = metric == "P@1", {}
            if biased:
                scores = biased.class_scores(metric)
                estimates[f"best of {self.repeats}"] = best_estimate(scores, self.best_repeat, decides)
                estimates[f"mean of {self.repeats}"] = mean_estimate(scores)
            if unbiased:
                others = unbiased.class_scores(metric)
                estimates[f"unbiased, mean of {self.repeats}"] = mean_estimate(others)
            if biased and unbiased:
                estimates["optimism"] = optimism_estimate(scores, others, self.best_repeat, decides)
            for label, estimate in estimates.items():
                target = self._target(metric) if label.startswith("best") else None
                is_gap = label == "optimism"
                baseline = self.config.name if is_gap else ""
                cell = dataclasses.replace(estimate, target=target, is_difference=is_gap, baseline=baseline)
                found.setdefault(label, {})[metric] = cell
        return self.table_rows(found)

    def table_rows(self, found: Mapping[str, Mapping[str, reports.TableCell]]) -> list[reports.TableRow]:
        """Name rows of cells by metric after the method and what they are of."""
        return [
            reports.TableRow(f"{self.name}, {label}", {(self.column, metric): cell for metric, cell in cells.items()})
            for label, cells in found.items()
        ]

    def explanations(self) -> list[str]:
        """Explain the optimism in P@1, once both sides are complete."""
        biased, unbiased = self.biased, self.unbiased
        if not (biased and unbiased):
            return []
        means = biased.class_scores("P@1").means
        chosen, rule = 100 * (means.max() - means.mean()), biased.difference(unbiased, "P@1")
        total = chosen + 100 * rule.estimate
        return [
            EXPLANATION,
            f"{self.config.name}: optimism of the protocol {total:+.2f} points of P@1 = {chosen:+.2f} (best of "
            f"{self.repeats} over their mean) {100 * rule.estimate:+.2f} (stopping on the test set over stopping on "
            f"held-out classes; interval [{100 * rule.low:+.2f}, {100 * rule.high:+.2f}])",
        ]

    @property
    def sides(self) -> list[tuple[str, ExperimentConfig, Sequence[Row]]]:
        """Label, configuration and runs of each stopping rule."""
        pairs = ((self.config, self.runs), (self.held_out_config, self.held_out_runs))
        return [(f"{of.name}, {MONITORED[str(of.protocol)]}", of, runs) for of, runs in pairs if runs is not None]

    def recall_of(self) -> dict[str, list[Row]]:
        """Return all runs by label, and first the one of the largest test P@1."""
        best = {f"{self.name}, best of {self.repeats}": [self.biased.rows[self.best_repeat]]} if self.biased else {}
        return {**best, **super().recall_of()}

    @property
    def best_repeat(self) -> int:
        """The repeat with the largest P@1 on the test set."""
        return best_repeat(check_given("runs", self.biased).class_scores("P@1"))

    def _scores(self, runs: Sequence[Row] | None) -> Scores | None:
        complete = self.complete(runs)
        return Scores(complete) if complete else None

    def complete(self, runs: Sequence[Row] | None) -> list[Row]:
        """Return the repeats of one stopping rule; none until complete."""
        done = {} if runs is None else finished(runs)
        repeats = [done.get((0, repeat)) for repeat in range(self.repeats)]
        return [row for row in repeats if row is not None] if None not in repeats else []

    def _target(self, metric: str) -> reports.Target:
        """Return the printed cell, and why the best repeat cannot be compared with it."""
        config, size = self.config, self.config.embedding_dim
        method = (config.dataset, config.loss, config.pooling, config.method, config.backbone)
        published = tables.conventional_published(*method, size, metric, chapter=config.chapter)
        conditions = tables.conventional_conditions(published) if published else {}
        reasons = self.reasons(published, conditions)
        if published and tables.is_quoted(published):
            reasons.append("the figure is quoted from another paper, which trained in another way")
        return reports.Target(published, reasons=tuple(reasons))


PRINTED_REPEATS = 5
_BEST, _BEST_EPOCH = "best test epoch of each metric", "epoch of the best R@1"
_OF_EPOCHS = (
    "Best test epoch: the maximum over all epochs on the test set, of each metric apart, as the benchmark's published "
    "script selects what the dissertation prints; it is optimistic. Last epoch: no choice at all. Unbiased: held-out "
    "training classes choose the epoch (that model learns from fewer classes), and the test set is looked at once. "
    "Runs that did not record an R@k at each epoch have that of the epoch of the best R@1. "
    "± is the standard deviation over repeats. NMI here is of as many clusters as the test set has classes; the "
    "benchmark's k-means has as many as the training set."
)


def metrics_of(dataset: str) -> tuple[str, ...]:
    """Return the metrics of a data set's table."""
    return (*(f"R@{k}" for k in traits_of(dataset).recall_at), "NMI")


def curve_figures(runs: Sequence[Row], dataset: str, choose: Callable) -> dict[str, np.ndarray]:
    """Choose one of each curve `[epochs]`: `[runs]`, by metrics that all recorded."""
    curves = {metric: [row.curve(metric)[1] for row in runs] for metric in metrics_of(dataset)}
    return {metric: np.array([*map(choose, of)]) for metric, of in curves.items() if all(map(len, of))}


def final_figures(runs: Sequence[Row], dataset: str) -> dict[str, np.ndarray]:
    """Return the test figures of the final weights, `[runs]` by metric."""
    found = [recall_of(row, dataset) for row in runs]
    figures = {metric: np.array([each[metric] for each in found]) for metric in found[0]}
    return {**figures, "NMI": np.array([normalized_mutual_information(row.test_embeddings()) for row in runs])}


class RevisitingReport(ConventionalReport):
    """One method's runs under both stopping rules, and their report; see `ConventionalReport`."""

    title: ClassVar[str] = '"Revisiting"'
    file_name: ClassVar[str] = "revisiting"

    def rows(self, reference: MethodReport | None = None, called: str = "") -> list[reports.TableRow]:
        """Build the complete rows: best test epoch, last epoch, unbiased, and optimism."""
        biased, unbiased = (self.complete(runs) for runs in (self.runs, self.held_out_runs))
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

    def explanations(self) -> list[str]:
        """Explain the epochs of the rows."""
        return [_OF_EPOCHS]

    def recall_of(self) -> dict[str, list[Row]]:
        """Return none: R@k are columns of the table."""
        return {}

    def _cell(self, metric: str, values: np.ndarray, label: str) -> reports.TableCell:
        spread = float(values.std(ddof=1)) if len(values) > 1 else None
        estimate = reports.TableCell(float(values.mean()), spread, interval_of_runs(values))
        config = self.config
        row = config.loss, config.embedding_dim, config.backbone
        published = tables.revisiting_published(config.dataset, row[0], metric, *row[1:])
        printed = tables.printed_row(*row)
        if label not in (_BEST, _BEST_EPOCH) or (published is None and metric not in ("R@1", "NMI")):
            return estimate
        reasons = self.reasons(published, tables.revisiting_conditions(*row))
        if published and printed and (difference := printed.difference(config.dataset)):
            reasons.append(difference)
        if label == _BEST_EPOCH:
            reasons.append("the figure is of the epoch of the best R@1, the table's of the best epoch of this metric")
        error = error_of_mean(published.std, PRINTED_REPEATS) if published else None
        return dataclasses.replace(estimate, target=reports.Target(published, reasons=tuple(reasons), error=error))
