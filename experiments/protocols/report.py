"""A protocol's report: its table, curves and sentences, in files and for the terminal."""

from __future__ import annotations

import abc
import pathlib
from collections.abc import Iterable, Mapping, Sequence
from typing import ClassVar, NamedTuple

import numpy as np

from common.errors import InvalidInput
from common.retrieval.metrics import TABLE_METRICS
from experiments import reports
from experiments.protocols.report_files import write_parts, write_recall
from experiments.recipes import departures
from experiments.reports.plain_tables import filled
from experiments.reports.tables import figures_table
from experiments.reports.training_effect import rows_without_training, runs_without_problem, training_did_not_help
from experiments.rows.rows import UNTRAINED, Row
from experiments.rows.run_folders import config_of, deviations_of, finished, missing, problems_of
from experiments.settings.config import ExperimentConfig
from experiments.settings.splits import few_validation_classes, unit_label

COMPARED = "MAP@R"


class MethodReport(abc.ABC):
    """What a protocol's report says of one method's runs."""

    title: ClassVar[str]  # of the protocol
    file_name: ClassVar[str] = "report"
    without: ClassVar[str]  # the flags without which the same command runs what is missing
    config: ExperimentConfig
    runs: Sequence[Row]
    repeats: int  # of a complete method

    @property
    def name(self) -> str:
        """The method's name in the table."""
        return self.config.name

    @property
    def column(self) -> str:
        """The name of the columns of single models."""
        return f"{self.config.embedding_dim}-D"

    @property
    def sides(self) -> list[tuple[str, ExperimentConfig, Sequence[Row]]]:
        """Label, configuration and runs of each stopping rule."""
        return [(self.name, self.config, self.runs)]

    @abc.abstractmethod
    def rows(self, reference: MethodReport | None = None, called: str = "") -> list[reports.TableRow]:
        """Build the complete rows, with differences from the `reference`, perhaps `called` otherwise; or none.

        Damaged test embeddings, or runs tested on different queries, are an `InvalidInput`.
        """

    def explanations(self) -> list[str]:
        """Return what stands below a table with rows of this method."""
        return []

    def first_sentences(self) -> list[str]:
        """Return what stands above the table."""
        return []

    def published(self, metric: str, size: int | None = None) -> reports.PublishedValue | None:
        """Return the printed cell for embeddings of a size; None: of the single models."""
        return None

    def recall_of(self) -> dict[str, list[Row]]:
        """Return by label the runs whose R@k are a table of their own."""
        return {label: [row for row in runs if row.is_finished] for label, _, runs in self.sides}

    def reasons(
        self, published: reports.PublishedValue | None, conditions: Mapping[str, object], kept: Iterable[str] = ()
    ) -> list[str]:
        """List why a printed cell cannot be compared with these runs.

        Fields that are `kept` may depart from the recipe.
        """
        departed = {name: value for name, value in departures(self.config).items() if name not in {*kept}}
        # A requested configuration names a file of weights; a run records its content, so a verdict needs no file.
        of_runs = {name: value for name, value in config_of(self.runs).items() if name in ("weights", "weights_source")}
        stated = {"protocol": "fair", **self.config.as_dict(), **of_runs, "repeats": self.repeats}
        return reports.incomparable_reasons(stated, conditions, deviations_of(self.runs), departed if published else {})

    @property
    def counted(self) -> list[Row]:
        """The finished runs of the repeats that count; the disk may have more."""
        return [row for row in self.runs if row.is_finished and row["repeat"] < self.repeats]

    def untrained_rows(self) -> list[reports.TableRow]:
        """Average the metrics of the backbones' average features, and of their closed forms."""
        return rows_without_training(self.counted, self.column)

    def curves(self) -> list[reports.Curve]:
        """Return the monitored curve of every evaluated run."""
        curves = [
            reports.Curve(label, *row.curve(config.monitor)) for label, config, runs in self.sides for row in runs
        ]
        return [curve for curve in curves if len(curve.steps)]

    def partial_lines(self, *, with_figures: bool = True) -> list[str]:
        """List unusable and missing runs.

        An incomplete study also lists its finished runs, `with_figures`.
        """
        lines, absent = [], []
        for _, config, runs in self.sides:
            lines += [f"warning: {problem}" for problem in problems_of(runs)]
            of_side = missing(runs, _folds(config), self.repeats)
            absent += [unit_label(config, *place) for place in of_side]
            for place, row in finished(runs).items() if of_side and with_figures else ():
                lines.append(f"{self.name} {unit_label(config, *place)}: {_figures(row)}")
        names = ("; " if self.config.protocol else ", ").join(absent)
        advice = f"the same command without {self.without} runs them"
        return [*lines, f"{self.name}: missing {names}; {advice}."] if absent else lines

    def warnings(self) -> list[str]:
        """Warn of no training gain, CCP without problems, or few validation classes.

        Of a method with a choice, the first and the last are no reason to worry.
        """
        runs = [row for row in self.runs if row.is_finished]
        known = [count for row in runs if (count := row.result.get("validation_classes")) is not None]
        said, means = [], trained_and_untrained(self.runs)
        if clause := runs_without_problem([row["extras"].get("problems") for row in runs]):
            said.append(f"{clause}.")
        if self.first_sentences():  # they say what is done about the rest
            return said
        if means and self.is_complete and (clause := training_did_not_help(*means)):
            said.insert(0, f"{clause}. More classes, a lower learning rate or more steps may help.")
        return [*said, *([clause] if known and (clause := few_validation_classes(min(known))) else [])]

    @property
    def is_complete(self) -> bool:
        """True if each fold and repeat of the first stopping rule has a result."""
        return not missing(self.runs, _folds(self.config), self.repeats)


def _folds(config: ExperimentConfig) -> int:
    return 1 if config.protocol else config.num_folds


def trained_and_untrained(runs: Iterable[Row]) -> tuple[float, float] | None:
    """Average MAP@R after and before training over the runs that recorded both."""
    found = [row for row in runs if row[UNTRAINED]]
    after, before = ([row[moment]["MAP@R"] for row in found] for moment in ("test", UNTRAINED))
    return (float(np.mean(after)), float(np.mean(before))) if found else None


def _figures(row: Row) -> str:
    test, untrained = row["test"], row[UNTRAINED]
    figures = [
        f"{metric} {100 * test[metric]:.2f} (untrained {100 * untrained[metric]:.2f})"
        for metric in TABLE_METRICS
        if metric in test.keys() & untrained.keys()
    ]
    return "  ".join([*figures, f"{row['steps']} steps, {row['train_seconds'] / 60:.1f} minutes"])


class Report(NamedTuple):
    """The rows of complete methods, with what stands below their table."""

    before: list[reports.TableRow]  # without training, of the method that recorded most
    rows: list[reports.TableRow]
    explanations: list[str]
    left_out: list[str]  # a line for each method whose files are unusable
    curves: list[reports.Curve]


def report_of(
    methods: Sequence[MethodReport], *, baselines: Mapping[str, str | None] | None = None, is_strict: bool = True
) -> Report:
    """Evaluate methods.

    Args:
        baselines: the name of the method that each is compared with; None: the first complete one.
        is_strict: raise an `InvalidInput` for unusable files, instead of a line in the report.
    """
    found: dict[str, list[reports.TableRow]] = {}
    complete: dict[str | None, MethodReport] = {}
    left_out = []
    for method in sorted(methods, key=lambda method: (baselines or {}).get(method.name) is not None):
        first = next(iter(complete), None)
        try:
            if baselines is None:
                rows = method.rows(complete.get(first))
            else:
                rows = method.rows(complete.get(baselines[method.name]), "baseline")
        except InvalidInput as error:
            if is_strict:
                raise
            left_out.append(f"{method.name} is not in the table: {error}")
            continue
        found[method.name] = rows
        complete |= {method.name: method} if rows else {}
    before = max((method.untrained_rows() for method in methods), key=len, default=[])
    explanations = dict.fromkeys(line for method in complete.values() for line in method.explanations())
    curves = [curve for method in methods for curve in method.curves()]
    return Report(before, [row for of in methods for row in found.get(of.name, [])], [*explanations], left_out, curves)


def write_report(
    methods: Sequence[MethodReport], folder: pathlib.Path, title: str, *, name: str = "", notes: Sequence[str] = ()
) -> str:
    """Write `<name>.md`, `.csv`, `.tex`, `validation_curves.png`; return the terminal's text.

    By default, the name is that of the protocol's files.
    """
    report, name, places = report_of(methods), name or methods[0].file_name, []
    first = [filled(sentence) for method in methods for sentence in method.first_sentences()]
    if report.curves:
        places.append(f"Validation curves: {folder / 'validation_curves.png'}")
        metric = methods[0].config.monitor
        reports.validation_curves(report.curves, folder / "validation_curves.png", metric=metric, title=title)
    gains, picture = _class_gains(methods), folder / "classes.png"
    if len(gains) > 1:
        baseline, *_ = gains
        del gains[baseline]
        places.append(f"Gains by test class: {picture}")
        reports.class_gains(gains, picture, baseline=baseline, metric=COMPARED)
    parts = [line for method in methods for line in method.partial_lines()]  # the terminal has them below
    report = report._replace(explanations=[*report.explanations, *parts])
    done = {label: [*finished(runs).values()] for method in methods for label, _, runs in method.sides}
    texts = [*written(report, methods, folder, name, title, notes), write_parts(done, folder)]
    if report.before or report.rows:
        places.append(f"Details (--details prints them): {folder / name}.md")
    return "\n".join(text for text in [*first, *texts, *lines_of(methods), *places] if text)


def _class_gains(methods: Sequence[MethodReport]) -> dict[str, np.ndarray]:
    """Return the MAP@R of complete methods minus that of the first, by test class."""
    means: dict[str, np.ndarray] = {}
    for method in methods:
        scored = [row.scored() for row in method.counted] if method.is_complete else []
        if scored and all(COMPARED in row.sums for row in scored):
            means[method.name] = np.mean([row.sums[COMPARED] / row.counts for row in scored], axis=0)
    return {name: values - next(iter(means.values())) for name, values in means.items()}


def written(
    report: Report,
    methods: Sequence[MethodReport],
    folder: pathlib.Path,
    name: str,
    title: str,
    notes: Sequence[str],
    *,
    has_recall: bool = True,
) -> list[str]:
    """Write the tables of figures and of R@k; return their texts.

    Without `has_recall`, the second text only names its file.
    """
    rows = [*report.before, *report.rows]
    table = figures_table(rows, title, notes, explanations=report.explanations) if rows else None
    runs = {label: rows for method in methods for label, rows in method.recall_of().items()}
    published = {method.name: method.published for method in methods}
    dataset = methods[0].config.dataset if methods else ""
    text = table.write(folder, name, latex=True) if table else ""
    return [text, write_recall(runs, dataset, folder, name=name, published=published, shown=has_recall)]


def lines_of(methods: Sequence[MethodReport]) -> list[str]:
    """List missing runs, and each warning once with its methods."""
    warned: dict[str, list[str]] = {}
    for method in methods:
        for problem in method.warnings():
            warned.setdefault(problem, []).append(method.name)
    lines = [f"warning: {', '.join(names)}: {problem}" for problem, names in warned.items()]
    return [
        *(line for method in methods for line in method.partial_lines()),
        *map(filled, lines),
    ]
