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
from experiments.protocols.fair_report import FairReport
from experiments.protocols.report import MethodReport, report_of
from experiments.recipes import departures
from experiments.recipes.thesis import HELD_OUT_FRACTION
from experiments.reports.scores import Scores, figures_row
from experiments.rows.rows import Row
from experiments.rows.run_folders import config_of, finished
from experiments.runs.trained_model import stored_configuration
from experiments.settings.config import ExperimentConfig
from experiments.settings.run_settings import FINAL, REVISITING

_MOST_TOLD = 2  # fields in a label; beyond them the configuration's hash says more
_DIGEST = re.compile(r"((?:parameters-)?sha256:[0-9a-f]{8})[0-9a-f]+")
_LENGTH = ("max_steps", "steps_per_evaluation", "patience")  # what a budget sets
_REPORTS = (FairReport, ConventionalReport, RevisitingReport)  # of kinds of studies, in their order
_FREE_OF_RULE = ("protocol", "held_out_fraction", "classes_per_batch")  # allowed differences of the two stopping rules


class Study(NamedTuple):
    """The content of a section of the report."""

    title: str
    methods: list[FairReport]  # in order of their names, each with the number of repeats that any fold has begun
    rows: list[reports.TableRow]  # none before a method is complete
    curves: list[reports.Curve]
    metric: str  # of the curves
    notes: list[str]  # sentences below the table
    missing: list[str]  # missing and unusable runs, a line each


def read_studies(found: Iterable[Sequence[Row]]) -> tuple[list[Study], list[str]]:
    """Group runs into studies, the fair protocol's first; explain those that none can show."""
    groups: dict[tuple, list[tuple[ExperimentConfig, Sequence[Row]]]] = {}
    problems = []
    for runs in found:
        folder, stated = runs[0].folder.parent, config_of(runs)
        try:
            config = stored_configuration(stated, folder)
        except InvalidInput as error:
            problems.append(str(error))
            continue
        if config.protocol == FINAL:
            problems.append(f"{folder} is a model to deploy (experiments.train_final), which no table compares.")
            continue
        # The conventional protocol has no folds; its table lists the missing repeats of either rule.
        counts = (0, 0) if config.protocol else (config.num_folds, 1 + max(row["repeat"] for row in runs))
        conditions = (config.dataset, str(stated.get("data")), config.budget, config.embedding_dim, *counts)
        kind = 0 if config.protocol is None else 1 + (config.recipe == REVISITING)
        groups.setdefault((kind, *conditions), []).append((config, runs))
    studies = []
    ordered = sorted(groups.items(), key=lambda item: item[0])
    for (kind, *_), members in progress_bar(ordered, desc="studies evaluated"):
        methods = _labelled(members)
        studies.append(_study(methods, _REPORTS[kind]))
    return studies, problems


def _labelled(members: Sequence[tuple[ExperimentConfig, Sequence[Row]]]) -> list[FairReport]:
    """Sort methods, fewest parts first, and tell those of equal names apart."""
    methods = []
    for config, runs in sorted(
        members, key=lambda member: (member[0].name.count("+"), member[1][0].folder.parent.name)
    ):
        peers = [other for other, _ in members if (other.name, other.protocol) == (config.name, config.protocol)]
        label = config.name
        if len(peers) > 1:
            fields = _telling_fields([peer.as_dict() for peer in peers])
            told = ", ".join(f"{name} {short_value(getattr(config, name))}" for name in fields)
            label += f", {told}" if 0 < len(fields) <= _MOST_TOLD else f", configuration {runs[0]['config_hash']}"
        methods.append(FairReport(config, runs, 1 + max(row["repeat"] for row in runs), label))
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


def _setting(methods: Sequence[FairReport]) -> str:
    """Describe data set, training length (steps if custom) and embedding size."""
    first = methods[0].config
    by_hand = [method.config for method in methods if departures(method.config).keys() & set(_LENGTH)]
    length = f"budget {first.budget}"
    if by_hand:
        steps = sorted({config.max_steps for config in by_hand})
        length = f"at most {' or '.join(f'{count:,}' for count in steps)} steps, set by hand"
    return f"{first.dataset}, {length}, {first.embedding_dim}-D"


def _study(methods: list[FairReport], kind: type[MethodReport]) -> Study:
    """Show the methods of a protocol, by the rows and sentences of its reports."""
    repeats, found = max(method.repeats for method in methods), list[MethodReport]()
    if kind is FairReport:
        found += [dataclasses.replace(method, repeats=repeats) for method in methods]
    else:
        pairs = _both_rules(methods)
        found += [kind(one.config, of.config, one.runs, of.runs, repeats) for one, of in pairs]  # type: ignore[call-arg]
    report = report_of(found, is_strict=False)
    rows, notes = report.rows, report.explanations
    if kind is FairReport:
        notes = [sentence for method in found for sentence in method.first_sentences()]
        notes += [f"{method.name}: {warning}" for method in found for warning in method.warnings()]
        if not rows:
            rows, of_shared = _rows_of_shared_runs(found)
            notes = [*of_shared, *notes]
    missing = [line for method in found for line in method.partial_lines(with_figures=False)]
    folds = f"{methods[0].config.num_folds} folds, " if kind is FairReport else ""
    title = f"{kind.title} protocol on {_setting(methods)}: {folds}{plural(repeats, 'repeat')}"
    return Study(
        title,
        methods,
        report.before + rows,
        report.curves,
        found[0].config.monitor,
        notes,
        [*report.left_out, *missing],
    )


def _rows_of_shared_runs(found: Sequence[MethodReport]) -> tuple[list[reports.TableRow], list[str]]:
    """Build rows and a note from runs that all begun methods finished."""
    begun = [(report, done) for report in found if (done := finished(report.runs))]
    shared = sorted(set.intersection(*(set(done) for _, done in begun))) if begun else []
    if not shared:
        return [], []
    rows, notes, scores = list[reports.TableRow](), [], dict[str, Scores]()
    for report, done in begun:
        against = {f"single minus {first.method}": first.method for first in rows[:1]}
        try:
            scores[report.name] = Scores([done[place] for place in shared])
            rows.append(figures_row(scores, report.name, against, report.column))
        except InvalidInput as error:
            notes.append(f"{report.name} is not in the table: {error}")
    runs = ", ".join(f"fold {fold} repeat {repeat}" for fold, repeat in shared)
    return rows, [f"No method has all of its folds yet. The table is of what all begun methods have: {runs}.", *notes]


def _both_rules(methods: Sequence[FairReport]) -> list[tuple[FairReport, FairReport]]:
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


def _shared(method: FairReport) -> dict:
    return {name: value for name, value in method.config.as_dict().items() if name not in _FREE_OF_RULE}


def _absent(method: FairReport, protocol: str, held_out_fraction: float | None) -> FairReport:
    config = dataclasses.replace(method.config, protocol=protocol, held_out_fraction=held_out_fraction)
    return dataclasses.replace(method, config=config, runs=())
