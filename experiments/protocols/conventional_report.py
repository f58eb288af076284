"""The conventional protocol's report: best and mean repeats, the unbiased figure, the optimism."""

from __future__ import annotations

import dataclasses
import functools
import pathlib
from collections.abc import Sequence

from common.errors import check_given
from experiments import reports
from experiments.protocols.feature_report import write_parts, write_recall
from experiments.protocols.report_files import write_report_files
from experiments.reports import best_of_repeats
from experiments.reports.training_effect import rows_without_training
from experiments.rows import Scores
from experiments.runs.unit import MONITORED, unit_label
from experiments.settings.config import ExperimentConfig
from experiments.settings.recipes import departures

METRICS = ("P@1", "MAP@R")
EXPLANATION = (
    "Optimism of the protocol: best of the repeats that stop on the test set, minus mean of the repeats that stop on "
    "held-out training classes (the unbiased figure; those also learn from fewer classes). The first is what "
    "conventional tables print. P@1 is their R@1."
)


@dataclasses.dataclass(frozen=True)
class ConventionalReport:
    """One method's runs under both stopping rules, and their report.

    Attributes:
        config: stops on the test set.
        held_out_config: stops on held-out classes.
        runs: the runs on disk of the first.
        held_out_runs: likewise of the second; None where it is not wanted.
        repeats: how many of each a complete study has.
    """

    config: ExperimentConfig
    held_out_config: ExperimentConfig
    runs: reports.MethodRuns
    held_out_runs: reports.MethodRuns | None
    repeats: int

    @functools.cached_property
    def biased(self) -> Scores | None:
        """Scores of the repeats that stopped on the test set; `None` until complete."""
        return self._scores(self.runs)

    @functools.cached_property
    def unbiased(self) -> Scores | None:
        """Scores of the repeats that stopped on held-out classes; `None` until complete."""
        return self._scores(self.held_out_runs)

    def rows(self) -> list[reports.TableRow]:
        """Return the complete rows: biased best and mean, unbiased mean, difference."""
        rows, biased, unbiased = [], self.biased, self.unbiased
        name, count = self.config.name, self.repeats
        if biased:
            rows.append(self._row(f"{name}, best of {count}", self._best_cells()))
            rows.append(self._row(f"{name}, mean of {count}", _mean_cells(biased)))
        if unbiased:
            rows.append(self._row(f"{name}, unbiased, mean of {count}", _mean_cells(unbiased)))
        if biased and unbiased:
            biased.check_comparable(unbiased)
            estimates = {
                metric: best_of_repeats.optimism_estimate(
                    biased.class_scores(metric), unbiased.class_scores(metric), self.best_repeat, metric == "P@1"
                )
                for metric in METRICS
            }
            cells = {
                metric: reports.TableCell(of, is_difference=True, baseline=name) for metric, of in estimates.items()
            }
            rows.append(self._row(f"{name}, optimism", cells))
        return rows

    def optimism_line(self) -> str | None:
        """Explain the optimism in P@1; `None` before both sides are complete."""
        biased, unbiased = self.biased, self.unbiased
        if not (biased and unbiased):
            return None
        means = biased.class_scores("P@1").means
        chosen, rule = 100 * (means.max() - means.mean()), biased.difference(unbiased, "P@1")
        total = chosen + 100 * rule.estimate
        return (
            f"{self.config.name}: optimism of the protocol {total:+.2f} points of P@1 = {chosen:+.2f} (best of "
            f"{self.repeats} over their mean) {100 * rule.estimate:+.2f} (stopping on the test set over stopping on "
            f"held-out classes; interval [{100 * rule.low:+.2f}, {100 * rule.high:+.2f}])"
        )

    def untrained_rows(self) -> list[reports.TableRow]:
        """Average the metrics of the backbones' average features, and of their closed forms."""
        results = [unit.measured for (_, repeat), unit in self.runs.finished.items() if repeat < self.repeats]
        return rows_without_training(results, f"{self.config.embedding_dim}-D")

    def curves(self) -> list[reports.Curve]:
        """Return evaluated units' monitored curves: of the test set, and held-out classes."""
        drawn = []
        for config, runs in self._sides():
            for unit in runs.units:
                steps, values = unit.validation_curve(config.monitor)
                if len(steps):
                    drawn.append(reports.Curve(f"{config.name}, {MONITORED[str(config.protocol)]}", steps, values))
        return drawn

    def partial_lines(self, with_figures: bool = True) -> list[str]:
        """List an incomplete study's finished units, with figures, and missing ones.

        Args:
            with_figures: whether to include the figures; a page shows them elsewhere.
        """
        lines, missing = [], []
        for config, runs in self._sides():
            lines += [f"warning: {problem}" for problem in runs.problems]
            absent = [repeat for _, repeat in runs.missing(1, self.repeats)]
            missing += [unit_label(config, 0, repeat) for repeat in absent]
            for (fold, repeat), unit in runs.finished.items() if absent and with_figures else ():
                figures = "  ".join(f"{metric} {100 * unit.measured['test'][metric]:.2f}" for metric in METRICS)
                lines.append(f"{config.name} {unit_label(config, fold, repeat)}: {figures}")
        if missing:
            lines.append(
                f"{self.config.name}: missing {'; '.join(missing)}. The same command without --repeat and --monitor "
                "runs them."
            )
        return lines

    def finished_by_side(self) -> list[tuple[str, list[reports.UnitRun]]]:
        """Return the finished runs of each stopping rule, with the rule's name."""
        sides = [(f"{config.name}, {MONITORED[str(config.protocol)]}", runs) for config, runs in self._sides()]
        return [(name, list(runs.finished.values())) for name, runs in sides]

    @property
    def best_repeat(self) -> int:
        """The repeat with the largest P@1 on the test set."""
        return best_of_repeats.best_repeat(check_given("runs", self.biased).class_scores("P@1"))

    def _sides(self) -> list[tuple[ExperimentConfig, reports.MethodRuns]]:
        sides = ((self.config, self.runs), (self.held_out_config, self.held_out_runs))
        return [(config, runs) for config, runs in sides if runs is not None]

    def _scores(self, runs: reports.MethodRuns | None) -> Scores | None:
        if runs is None or runs.missing(1, self.repeats):
            return None
        return Scores.of_runs([runs.finished[0, repeat] for repeat in range(self.repeats)])

    def _row(self, label: str, cells: dict[str, reports.TableCell]) -> reports.TableRow:
        size = f"{self.config.embedding_dim}-D"
        return reports.TableRow(label, {(size, metric): cell for metric, cell in cells.items()})

    def _best_cells(self) -> dict[str, reports.TableCell]:
        cells = {}
        for metric in METRICS:
            estimate = best_of_repeats.best_estimate(
                check_given("runs", self.biased).class_scores(metric), self.best_repeat, decides=metric == "P@1"
            )
            published = self._published(metric)
            target = reports.Target(published, reasons=tuple(self._reasons(published)))
            cells[metric] = reports.TableCell(estimate, target)
        return cells

    def _published(self, metric: str) -> reports.PublishedValue | None:
        config = self.config
        return reports.conventional_published(
            config.dataset,
            config.loss,
            config.pooling,
            config.method,
            config.backbone,
            config.embedding_dim,
            metric,
            chapter=config.chapter,
        )

    def _reasons(self, published: reports.PublishedValue | None) -> list[str]:
        conditions = reports.conventional_conditions(published) if published else {}
        stated = {**self.runs.stated(self.config.as_dict()), "repeats": self.repeats}
        departed = departures(self.config) if published else {}
        reasons = reports.incomparable_reasons(stated, conditions, self.runs.deviations, departed)
        if published and reports.is_quoted(published):
            reasons.append("the figure is quoted from another paper, which trained in another way")
        return reasons


def _mean_cells(scores: Scores) -> dict[str, reports.TableCell]:
    estimates = {metric: best_of_repeats.mean_estimate(scores.class_scores(metric)) for metric in METRICS}
    return {metric: reports.TableCell(estimate) for metric, estimate in estimates.items()}


def write_report(
    methods: list[ConventionalReport],
    folder: pathlib.Path,
    title: str,
    *,
    name: str = "report",
    notes: Sequence[str] = (),
) -> str:
    """Write `<name>.md`, `.csv`, `.tex`, `validation_curves.png`; return the terminal's text."""
    rows = [row for method in methods for row in method.rows()]
    rows = max((method.untrained_rows() for method in methods), key=len, default=[]) + rows
    optimism = [line for method in methods if (line := method.optimism_line())]
    explanations = [EXPLANATION, *optimism] if optimism else []
    curves = [curve for method in methods for curve in method.curves()]
    table, picture = write_report_files(
        rows, curves, folder, title, metric="P@1", explanations=explanations, notes=notes, name=name
    )
    finished = {name: units for method in methods for name, units in method.finished_by_side()}
    best = {
        f"{method.config.name}, best of {method.repeats}": [method.runs.finished[0, method.best_repeat]]
        for method in methods
        if method.biased
    }
    recall = write_recall({**best, **finished}, methods[0].config.dataset, folder, name=name)
    parts = write_parts(finished, folder)
    lines = [line for method in methods for line in method.partial_lines()]
    return "\n".join(part for part in (table, recall, parts, *lines, picture) if part)
