"""The fair protocol's report: published values, verdicts and a picture of validation curves."""

from __future__ import annotations

import dataclasses
import functools
import pathlib
import shlex
from collections.abc import Collection, Sequence

import numpy as np

from common.data import Dataset
from common.retrieval.metrics import TABLE_METRICS
from experiments import reports
from experiments.protocols import report_files
from experiments.published.values import DISSERTATION, dissertation_value, fair_published
from experiments.reports.scores import Scores, cell
from experiments.reports.training_effect import rows_without_training, runs_without_problem, training_did_not_help
from experiments.reports.verdicts import HALF_DIGIT, half_effect, published_difference
from experiments.rows.rows import collection_rows
from experiments.runs.splits import few_validation_classes
from experiments.settings.config import ExperimentConfig
from experiments.settings.recipes import departures

COMPARED = "MAP@R"


@dataclasses.dataclass(frozen=True)
class MethodReport:
    """One method's runs and their report."""

    config: ExperimentConfig
    runs: reports.MethodRuns
    repeats: int  # how many repeats a complete study has
    label: str | None = None  # its name in the table; by default the configuration's
    # (table, row label) of the published row for comparison; by default what `fair_published` finds
    printed: tuple[str, str] | None = None
    settings: Collection[str] = ()  # fields with which that row differs from the recipe

    @property
    def name(self) -> str:
        """The method's name in the table."""
        return self.label or self.config.name

    @property
    def missing(self) -> list[tuple[int, int]]:
        """(fold, repeat) pairs without a result."""
        return self.runs.missing(self.config.num_folds, self.repeats)

    def row(self, reference: MethodReport | None = None, reference_name: str | None = None) -> reports.TableRow:
        """Build a complete method's row, with its paired MAP@R difference to `reference`.

        Verdicts are on the figures and, where the thesis has both rows, on the difference.
        """
        cells = {
            (f"{kind} {size}-D", metric): cell(scores.over_collections(metric), self._target(size, metric, reference))
            for kind, (size, scores) in self._scores.items()
            for metric in scores.metrics
        }
        if reference is None:
            return reports.TableRow(self.name, cells)
        for kind, (size, scores) in self._scores.items():
            interval = scores.difference(reference._scores[kind][1], COMPARED)
            printed = self._target_of_difference(size, reference)
            column = f"{kind} minus {reference_name or reference.name}", COMPARED
            cells[column] = cell(interval, printed, is_difference=True, baseline=reference.name)
        return reports.TableRow(self.name, cells)

    def untrained_rows(self) -> list[reports.TableRow]:
        """Average the metrics of the backbones' average features, and of their closed forms."""
        results = [unit.measured for unit in self.runs.finished.values()]
        return rows_without_training(results, f"single {self.config.embedding_dim}-D")

    def curves(self) -> list[reports.Curve]:
        """Return the validation curve of every evaluated unit."""
        curves = [(unit, unit.validation_curve("MAP@R")) for unit in self.runs.units]
        return [reports.Curve(self.name, steps, values) for unit, (steps, values) in curves if len(steps)]

    def _target(self, size: int, metric: str, reference: MethodReport | None) -> reports.Target:
        """Return the printed cell; its margin is half the effect on `reference`."""
        published = self.published(metric, size)
        margin = half_effect(published, reference.published(metric, size) if reference else None)
        error = reports.error_of_collections(published.std) if published else None
        return reports.Target(published, margin, tuple(self._reasons(published)), error)

    def _target_of_difference(self, size: int, reference: MethodReport) -> reports.Target | None:
        """Return the printed difference of two rows, if both are printed."""
        own, other = self.published(COMPARED, size), reference.published(COMPARED, size)
        published = published_difference(own, other)
        if published is None:
            return None
        reasons = tuple(dict.fromkeys([*self._reasons(own), *reference._reasons(other)]))
        error = reports.error_of_collections(published.std)
        return reports.Target(published, half_effect(own, other), reasons, error, rounding=2 * HALF_DIGIT)

    def _reasons(self, published: reports.PublishedValue | None) -> list[str]:
        conditions = reports.conditions_of(published) if published else {}
        departed = {} if published is None else self._departures()
        stated = {"protocol": "fair", **self.runs.stated(self.config.as_dict())}
        return reports.incomparable_reasons(stated, conditions, self.runs.deviations, departed)

    def _departures(self) -> dict[str, object]:
        """Return fields set by hand, except the printed row's and GSP's parts."""
        parts = {"zero_shot_weight": 0, "transport_ratio": 1}
        row = {*self.settings, *(name for name, value in parts.items() if getattr(self.config, name) == value)}
        return {name: value for name, value in departures(self.config).items() if name not in row}

    def published(self, metric: str, size: int | None = None) -> reports.PublishedValue | None:
        """Return the printed cell for embeddings of a size; None: of the single models."""
        size = size or self.config.embedding_dim
        config = self.config
        if self.printed is not None:
            table, row = self.printed
            if table.startswith(DISSERTATION):
                is_single = size == config.embedding_dim
                return dissertation_value(table, config.dataset, row, metric) if is_single else None
            return reports.published_value(table, config.dataset, row, size, metric)
        averages = config.pooling == "gsp" and config.transport_ratio == 1
        method = (config.loss, "gap" if averages else config.pooling, config.method)
        zero_shot = bool(config.zero_shot_weight)
        return fair_published(config.dataset, *method, size, metric, chapter=config.chapter, zero_shot=zero_shot)

    @functools.cached_property
    def _scores(self) -> dict[str, tuple[int, Scores]]:
        """Sizes and scores of the runs and of the concatenated models."""
        # The disk may have more repeats.
        units = [unit for (_, repeat), unit in self.runs.finished.items() if repeat < self.repeats]
        dim, folds = self.config.embedding_dim, self.config.num_folds
        concatenated = Scores(collection_rows(units, folds))
        return {"single": (dim, Scores.of_runs(units)), "concatenated": (dim * folds, concatenated)}


def write_report(methods: list[MethodReport], folder: pathlib.Path, title: str, notes: Sequence[str] = ()) -> str:
    """Write `report.md`, `.csv`, `.tex` and `validation_curves.png`; return the terminal's text."""
    complete = [method for method in methods if not method.missing]
    rows = [method.row(complete[0] if place else None) for place, method in enumerate(complete)]
    curves = [curve for method in methods for curve in method.curves()]
    table, picture = report_files.write_report_files(
        [*report_files.rows_before(methods), *rows], curves, folder, title, notes=notes
    )
    recall = write_recall_of_methods(methods, folder)
    parts = report_files.write_parts({method.name: list(method.runs.finished.values()) for method in methods}, folder)
    lines = [line for method in methods for line in partial_lines(method)]
    lines += report_files.warning_lines([warning for method in methods for warning in method_warnings(method)])
    lines += [f"warning: {problem}" for method in methods for problem in method.runs.problems]
    return "\n".join(part for part in (table, recall, parts, *lines, picture) if part)


def write_recall_of_methods(
    methods: Sequence[MethodReport], folder: pathlib.Path, name: str = "report", *, shown: bool = True
) -> str:
    """Write R@k of the single models beside the printed cells; see `write_recall`."""
    finished = {method.name: list(method.runs.finished.values()) for method in methods}
    published = {method.name: method.published for method in methods}
    dataset = methods[0].config.dataset if methods else ""
    return report_files.write_recall(finished, dataset, folder, name=name, published=published, shown=shown)


def method_warnings(method: MethodReport) -> list[report_files.MethodWarning]:
    """Warn of no training gain, CCP without problems, or few validation classes."""
    results = [unit.measured for unit in method.runs.finished.values()]
    means, known = _means(method), [of for result in results if (of := result.get("validation_classes")) is not None]
    remedy, no_problem = "More classes, a lower learning rate or more steps may help.", ""
    no_gain = training_did_not_help(*means) if means and not method.missing else None
    if clause := runs_without_problem([result.get("problems") for result in results]):
        no_problem = f"{clause}."
    found = [(no_gain, remedy), (no_problem, ""), (few_validation_classes(min(known)) if known else None, "")]
    return [report_files.MethodWarning(method.name, problem, fix) for problem, fix in found if problem]


def _means(method: MethodReport) -> tuple[float, float] | None:
    """Average MAP@R after and before training over the runs that recorded both."""
    found = [unit.measured for unit in method.runs.finished.values() if unit.measured.get("untrained")]
    after, before = ([result[moment][COMPARED] for result in found] for moment in ("test", "untrained"))
    return (float(np.mean(after)), float(np.mean(before))) if found else None


def export_advice(methods: Sequence[MethodReport], dataset: Dataset, data_dir: str | None) -> str | None:
    """Name the command that exports the better of trained and untrained.

    The method with the highest mean test MAP@R of single models is compared; without a complete method with untrained
    figures, return None. A network with random weights, or of other data than colour photos, has no use without
    training.
    """
    complete = [(means, method) for method in methods if (means := _means(method)) and not method.missing]
    if not complete:
        return None
    (trained, untrained), best = max(complete, key=lambda pair: pair[0][0])
    config = best.config
    run = best.runs.finished[min(best.runs.finished)].path
    name, chosen = "trained", [f"--run={run}", *([f"--data_dir={data_dir}"] if data_dir else [])]
    is_exportable = config.weights != "none" and dataset.kind == "image_files" and dataset.channels == 3
    if is_exportable and training_did_not_help(trained, untrained):
        name = "untrained"
        names = ("backbone", "weights", "image_size", "output_stride")
        chosen = [f"--{name}={getattr(config, name)}" for name in names if name in config.stored()]
    command = shlex.join(["dml", "export", *chosen, "--output=exported/model.keras"])
    figures = f"MAP@R {100 * trained:.2f} trained ({best.name}), {100 * untrained:.2f} untrained"
    return f"{figures}. To export the {name} network:\n{command}"


def partial_lines(method: MethodReport, *, with_figures: bool = True) -> list[str]:
    """List an incomplete study's finished units, beside untrained figures, and missing ones."""
    if not method.missing:
        return []
    lines = []
    for (fold, repeat), unit in method.runs.finished.items() if with_figures else ():
        test, untrained = unit.test_metrics(), unit.untrained_metrics()
        figures = "  ".join(
            f"{metric} {100 * test[metric]:.2f} (untrained {100 * untrained[metric]:.2f})"
            for metric in TABLE_METRICS
            if metric in test.keys() & untrained.keys()
        )
        minutes = unit.measured["train_seconds"] / 60
        done = f"{unit.measured['steps']} steps, {minutes:.1f} minutes"
        lines.append(f"{method.name} fold {fold} repeat {repeat}: {figures}  {done}")
    names = ", ".join(f"fold {fold} repeat {repeat}" for fold, repeat in method.missing)
    return [*lines, f"{method.name}: missing {names}; the same command without --fold runs them."]
