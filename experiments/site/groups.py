"""Studies from runs on disk: methods on the same data that share a table."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from common.errors import InvalidInput
from common.pages.markup import plural
from common.progress import progress_bar
from experiments import reports
from experiments.protocols.conventional_report import ConventionalReport, RevisitingReport
from experiments.protocols.fair_report import MethodReport, method_warnings, partial_lines
from experiments.protocols.report_files import rows_before
from experiments.reports.scores import Scores, figures_row
from experiments.runs.trained_model import stored_configuration
from experiments.settings.config import ExperimentConfig
from experiments.settings.recipes import departures
from experiments.settings.recipes.thesis import HELD_OUT_FRACTION
from experiments.settings.run_settings import FINAL, REVISITING

_MOST_TOLD = 2  # fields in a label; beyond them the configuration's hash says more
_DIGEST = re.compile(r"((?:parameters-)?sha256:[0-9a-f]{8})[0-9a-f]+")
_LENGTH = ("max_steps", "steps_per_evaluation", "patience")  # what a budget sets
_REPORTS = {1: ConventionalReport, 2: RevisitingReport}  # of kinds of studies; 0 is the fair protocol
_FREE_OF_RULE = ("protocol", "held_out_fraction", "classes_per_batch")  # allowed differences of the two stopping rules


class Study(NamedTuple):
    """The content of a section of the report."""

    title: str
    methods: list[MethodReport]  # in order of their names, each with the number of repeats that any fold has begun
    rows: list[reports.TableRow]  # none before a method is complete
    curves: list[reports.Curve]
    metric: str  # of the curves
    notes: list[str]  # sentences below the table
    missing: list[str]  # missing and unusable runs, a line each


def read_studies(found: Iterable[reports.MethodRuns]) -> tuple[list[Study], list[str]]:
    """Group runs into studies, the fair protocol's first; explain those that none can show."""
    groups: dict[tuple, list[tuple[ExperimentConfig, reports.MethodRuns]]] = {}
    problems = []
    for runs in found:
        try:
            config = stored_configuration(runs.config, runs.path)
        except InvalidInput as error:
            problems.append(str(error))
            continue
        if config.protocol == FINAL:
            problems.append(f"{runs.path} is a model to deploy (experiments.train_final), which no table compares.")
            continue
        # The conventional protocol has no folds; its table lists the missing repeats of either rule.
        counts = (0, 0) if config.protocol else (config.num_folds, 1 + max(unit.repeat for unit in runs.units))
        conditions = (config.dataset, str(runs.config.get("data")), config.budget, config.embedding_dim, *counts)
        kind = 0 if config.protocol is None else 1 + (config.recipe == REVISITING)
        groups.setdefault((kind, *conditions), []).append((config, runs))
    studies = []
    ordered = sorted(groups.items(), key=lambda item: item[0])
    for (kind, *_), members in progress_bar(ordered, desc="studies evaluated"):
        methods = _labelled(members)
        studies.append(_conventional_study(methods, _REPORTS[kind]) if kind else _fair_study(methods))
    return studies, problems


def _labelled(members: Sequence[tuple[ExperimentConfig, reports.MethodRuns]]) -> list[MethodReport]:
    """Sort methods, fewest parts first, and tell those of equal names apart."""
    methods = []
    for config, runs in sorted(members, key=lambda member: (member[0].name.count("+"), member[1].path.name)):
        peers = [other for other, _ in members if (other.name, other.protocol) == (config.name, config.protocol)]
        label = config.name
        if len(peers) > 1:
            fields = _telling_fields([peer.as_dict() for peer in peers])
            told = ", ".join(f"{name} {short_value(getattr(config, name))}" for name in fields)
            label += f", {told}" if 0 < len(fields) <= _MOST_TOLD else f", configuration {runs.config_hash}"
        methods.append(MethodReport(config, runs, 1 + max(unit.repeat for unit in runs.units), label))
    return methods


def short_value(value: object) -> str:
    """Format a setting for a title; cut a SHA-256 to eight digits."""
    return _DIGEST.sub(r"\1...", str(value))


def _telling_fields(peers: Sequence[dict]) -> list[str]:
    """Choose few fields that distinguish all peers, most telling first, if possible."""
    names = list(dict.fromkeys(name for peer in peers for name in peer))
    chosen: list[str] = []

    def kinds(fields) -> int:
        return len({tuple(str(peer.get(name)) for name in fields) for peer in peers})

    while kinds(chosen) < len(peers):
        best = max(names, key=lambda name: kinds([*chosen, name]))
        if kinds([*chosen, best]) == kinds(chosen):
            return []
        chosen.append(best)
    return chosen


def _setting(methods: Sequence[MethodReport]) -> str:
    """Describe data set, training length (steps if custom) and embedding size."""
    first = methods[0].config
    by_hand = [method.config for method in methods if departures(method.config).keys() & set(_LENGTH)]
    length = f"budget {first.budget}"
    if by_hand:
        steps = sorted({config.max_steps for config in by_hand})
        length = f"at most {' or '.join(f'{count:,}' for count in steps)} steps, set by hand"
    return f"{first.dataset}, {length}, {first.embedding_dim}-D"


def _fair_study(methods: list[MethodReport]) -> Study:
    first = methods[0].config
    repeats = max(method.repeats for method in methods)
    found = [dataclasses.replace(method, repeats=repeats) for method in methods]
    rows, missing, reference = [], [], None
    for report in found:
        missing += [f"warning: {problem}" for problem in report.runs.problems]
        missing += partial_lines(report, with_figures=False)
        if report.missing:
            continue
        try:
            rows.append(report.row(reference))
        except InvalidInput as error:
            missing.append(f"{report.name} is not in the table: {error}")
            continue
        reference = reference or report
    notes = [str(warning) for report in found for warning in method_warnings(report)]
    if not rows:
        rows, of_shared = _rows_of_shared_runs(found)
        notes = [*of_shared, *notes]
    title = f"Fair protocol on {_setting(methods)}: {first.num_folds} folds, {plural(repeats, 'repeat')}"
    curves = [curve for report in found for curve in report.curves()]
    return Study(title, methods, rows_before(found) + rows, curves, "MAP@R", notes, missing)


def _rows_of_shared_runs(found: Sequence[MethodReport]) -> tuple[list[reports.TableRow], list[str]]:
    """Build rows and a note from runs that all begun methods finished."""
    begun = [report for report in found if report.runs.finished]
    shared = sorted(set.intersection(*(set(report.runs.finished) for report in begun))) if begun else []
    if not shared:
        return [], []
    rows, notes, scores = list[reports.TableRow](), [], dict[str, Scores]()
    for report in begun:
        against = {f"single minus {first.method}": first.method for first in rows[:1]}
        try:
            scores[report.name] = Scores.of_runs([report.runs.finished[key] for key in shared])
            rows.append(figures_row(scores, report.name, against, f"single {report.config.embedding_dim}-D"))
        except InvalidInput as error:
            notes.append(f"{report.name} is not in the table: {error}")
    runs = ", ".join(f"fold {fold} repeat {repeat}" for fold, repeat in shared)
    return rows, [f"No method has all of its folds yet. The table is of what all begun methods have: {runs}.", *notes]


def _conventional_study(methods: list[MethodReport], kind: type[ConventionalReport]) -> Study:
    """Show both stopping rules, by the rows and explanation of a kind of report."""
    repeats = max(method.repeats for method in methods)
    pairs = _both_rules(methods)
    found = [kind(one.config, other.config, one.runs, other.runs, repeats) for one, other in pairs]
    rows: list[reports.TableRow] = []
    optimism, missing = [], []
    for report, (biased, _) in zip(found, pairs):
        try:
            rows += report.rows()
            optimism += [line] if (line := report.optimism_line()) else []
        except InvalidInput as error:
            missing.append(f"{biased.name} is not in the table: {error}")
        missing += report.partial_lines(with_figures=False)
    title = f"{kind.protocol} protocol on {_setting(methods)}: {plural(repeats, 'repeat')}"
    notes = kind.explanations(optimism) if rows else []
    curves = [curve for report in found for curve in report.curves()]
    return Study(title, methods, rows_before(found) + rows, curves, "P@1", notes, missing)


def _both_rules(methods: Sequence[MethodReport]) -> list[tuple[MethodReport, MethodReport]]:
    """Pair each method's test-set and held-out stopping; absent ones are empty.

    With proxies, held-out classes may reduce the classes that fit into a batch.
    """
    sides = {rule: [m for m in methods if m.config.protocol == rule] for rule in ("conventional", "held_out")}
    pairs = []
    for biased in sides["conventional"]:
        twins = [other for other in sides["held_out"] if _shared(other) == _shared(biased)]
        twins.sort(key=lambda other: other.config.classes_per_batch != biased.config.classes_per_batch)
        if twins:
            sides["held_out"].remove(twins[0])
        pairs.append((biased, twins[0] if twins else _absent(biased, "held_out", HELD_OUT_FRACTION)))
    return pairs + [(_absent(alone, "conventional", None), alone) for alone in sides["held_out"]]


def _shared(method: MethodReport) -> dict:
    return {name: value for name, value in method.config.as_dict().items() if name not in _FREE_OF_RULE}


def _absent(method: MethodReport, protocol: str, held_out_fraction: float | None) -> MethodReport:
    config = dataclasses.replace(method.config, protocol=protocol, held_out_fraction=held_out_fraction)
    runs = dataclasses.replace(method.runs, protocol=protocol, config_hash="", units=())
    return dataclasses.replace(method, config=config, runs=runs)
