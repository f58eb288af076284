"""Tables of the documents, from rows; cog calls `show` with their names.

Arguments of a table: `study`, its rows; `table`, whose methods, of `experiments.table`; `methods`, their labels,
separated by commas.
"""

from __future__ import annotations

import dataclasses
import functools
import inspect
import pathlib
import re
from collections.abc import Callable, Collection, Sequence
from typing import Any, cast

import numpy as np
from tensorflow import keras

import ccp_dml
import gsp_dml
import milbich_dml
from common import losses, pooling
from common.diagnostics.diagnostic_names import NAMES
from common.errors import InvalidInput, check_choice, check_given
from common.pages.markup import plural
from common.retrieval.metrics import TABLE_METRICS
from experiments import reports
from experiments.deployment.final_run import models_table
from experiments.parts.kinds import Loss
from experiments.parts.registry import LOSSES
from experiments.parts.signatures import constructor_of
from experiments.plans.fair_table import FairTable
from experiments.plans.study import StudyOptions
from experiments.plans.sweep import sweep as sweep
from experiments.protocols.diagnostics import Point, correlation_table
from experiments.published.values import read_csv
from experiments.reports.scores import (
    collection_scores,
    complete_repeats,
    labels_of,
    rows_with,
    scores_of_trainings,
)
from experiments.reports.tables import (
    CUT_NOTE,
    DETECTABLE_NOTE,
    FAMILIES_NOTE,
    KIND_NOTES,
    SIGNIFICANT_NOTE,
    UNTESTED_NOTE,
)
from experiments.reports.training_effect import runs_without_problem
from experiments.rows.rows import TRAINING, Row
from experiments.rows.store import RECORDED, StudyRows
from experiments.settings import build
from experiments.settings.method_names import PROXY_LOSSES
from experiments.studies.claims import claims_table, held_claims, recorded_studies
from experiments.studies.collages import METHODS as COLLAGE_METHODS, collage_rows
from experiments.studies.mnist_report import problems_table, recorded_states
from experiments.studies.planned import where_weight_falls as where_weight_falls
from experiments.studies.prototype_combination import proposition as proposition
from experiments.studies.tables import TABLES
from experiments.studies.token_selection import token_table as token_table
from experiments.studies.zero_shot_prediction import zero_shot as zero_shot, zero_shot_ridges as zero_shot_ridges
from tools.documents.comparisons import (
    CONCATENATED,
    MINUS,
    SINGLE,
    Labelled,
    chosen_models as chosen_models,
    held_against as held_against,
    refined_metrics as refined_metrics,
    table_rows,
    untrained_means,
)
from tools.documents.provenance import provenance

EXPLAINED = (*KIND_NOTES.values(), FAMILIES_NOTE, CUT_NOTE, UNTESTED_NOTE, DETECTABLE_NOTE)  # once, in the index
_BOTH = ((SINGLE, "MAP@R"), (MINUS, "MAP@R"))
_STARRED = SIGNIFICANT_NOTE.partition("{")[0]
_LAYER = re.compile(r"\blosses\.(\w+)")


def show(build: Callable[..., Any], study: str, **arguments: str) -> None:
    """Print a study's table and its line of provenance.

    Args:
        build: see `markdown_of`.
        study: folder of `docs/results/rows`, or several: `NAME+NAME`.
        **arguments: of `build`.
    """
    rows = rows_of(study)
    if not rows.rows:
        raise InvalidInput(f"{RECORDED}/{study} has no rows. Record finished runs by --record={RECORDED}/{study}.")
    print(markdown_of(build, rows, **arguments))


def show_claims(plan: str = "planned") -> None:
    """Print the claims of a plan beside all its recorded studies.

    The tables of single studies have the lines of provenance. The first plan's has the notes on all.
    """
    table = claims_table(held_claims(recorded_studies(RECORDED, plan), plan))
    kept = table.notes if plan == "planned" else [note for note in table.notes if "not counted" in note]
    print(dataclasses.replace(table, notes=kept).as_markdown())


def markdown_of(build: Callable[..., Any], study: StudyRows, **arguments: str) -> str:
    """Return a table and its line of provenance, without the notes that docs/results/index.md explains.

    Args:
        build: returns a table, or a table and the labels of its methods (otherwise: all).
        study: its rows.
        **arguments: of `build`.
    """
    found = build(study, **arguments)
    table, labels = found if isinstance(found, tuple) else (found, labels_of(study))
    own = [note for note in table.notes if note not in EXPLAINED and not note.startswith(_STARRED)]
    text = dataclasses.replace(table, notes=own).as_markdown().rstrip()
    return f"{text}\n\n{provenance([row for row in study.rows if row['label'] in labels])}"


@functools.cache
def rows_of(study: str) -> StudyRows:
    """Return the rows of a recorded study, or of several, joined by `+`."""
    return joined_studies([f"{RECORDED}/{name}" for name in study.split("+")])


def joined_studies(folders: Sequence[str | pathlib.Path]) -> StudyRows:
    """Join studies under the first one's name, counting shared runs once.

    Args:
        folders: `docs/results/rows/<study>`, at least one.

    Raises:
        InvalidInput: see `StudyRows`; or two studies have different results of one run.
    """
    joined = StudyRows(folders[0])
    for folder in folders[1:]:
        study = StudyRows(folder)
        joined.merge(study.rows)
    return joined


def baselines_of(study: StudyRows, table: str) -> dict[str, str | None]:
    """Return the baseline of each method of a table, in its order."""
    first = _first(study)
    # Planned rows at a small budget need no recorded choice of settings.
    budget = "smoke" if table == "planned" else first["configuration"]["budget"]
    network = {"backbone": first["configuration"]["backbone"]}
    options = StudyOptions(first["dataset"], budget, overrides=network)
    asked = cast(FairTable, TABLES[check_choice("table", table, TABLES)](options))  # or another with such `rows`
    return {label: row.baseline for label, row in asked.rows.items()}


def fair_table(study: StudyRows, table: str) -> Labelled:
    """Tabulate a table's methods, single and concatenated, beside their baselines."""
    baselines = baselines_of(study, table)
    rows, lines = table_rows(study, baselines), []
    for row in rows:
        gap = row[MINUS, "MAP@R"]
        lines.append(
            [
                _short(row.method),
                *(_figure(row[SINGLE, metric], metric == "MAP@R") for metric in TABLE_METRICS),
                _figure(row[CONCATENATED, "MAP@R"]),
                _short(gap.baseline) if gap.baseline else "-",
                _figure(gap),
                gap.detectable or "-",
            ]
        )
    labels = [row.method for row in rows]
    header = ["method", *TABLE_METRICS, f"MAP@R, {_joined_size(study)}-D", "compared with", "difference, MAP@R"]
    before, *closed_forms = untrained_means(study, labels).items()
    notes = [
        f"Before training the backbone's average features have MAP@R {100 * before[1]['MAP@R']:.2f} and P@1 "
        f"{100 * before[1]['P@1']:.2f}."
    ]
    notes += [f"{name}: MAP@R {100 * of['MAP@R']:.2f}, P@1 {100 * of['P@1']:.2f}." for name, of in closed_forms]
    if missing := ", ".join(_short(label) for label in baselines if label not in labels):
        notes.append(f"Without rows of every fold, and so not in the table: {missing}.")
    for label in labels:
        runs = scores_of_trainings(study, label, complete_repeats(study, label)).rows
        if clause := runs_without_problem([row["extras"].get("problems") for row in runs]):
            notes.append(f"{_short(label)}: {clause}.")
    return reports.Table("", [*header, "detectable"], lines, [*notes, *reports.footnotes(rows)]), labels


def beside(study: StudyRows, other: str, table: str) -> Labelled:
    """Tabulate MAP@R of a table's methods on two data sets.

    Args:
        study: its rows.
        other: the study of the other data set.
        table: see `fair_table`.
    """
    found = [table_rows(of, baselines_of(of, table)) for of in (study, rows_of(other))]
    header = ["method"]
    for of in (study, rows_of(other)):
        header += [f"{_first(of)['dataset']}: MAP@R", "minus baseline"]
    lines = []
    for rows in zip(*found, strict=True):
        cells = [row[column] for row in rows for column in _BOTH]
        lines.append([_short(rows[0].method), *map(_figure, cells)])
    return reports.Table("", header, lines, []), [row.method for row in found[0]]


def mnist_problems(study: StudyRows, anchors: str) -> Labelled:
    """Tabulate the states of a recorded first run beside the published panels.

    Args:
        study: its rows.
        anchors: that represent the classes, a label of the rows; returned, too.
    """
    states = [recorded_states(row) for row in rows_with(study, "states", "3.2", anchors)]
    return dataclasses.replace(problems_table(anchors, states), title=""), [anchors]


def collage_table(study: StudyRows) -> reports.Table:
    """Tabulate figure 5.5 from rows; see `collage_rows`.

    Starts are sorted by name; in each, average pooling is first, distilled data last.
    """
    place = {method: index for index, method in enumerate(COLLAGE_METHODS)}
    found = {row.method: row for row in collage_rows(study)}
    order = sorted(found, key=lambda label: (label.split(" ")[:2], place[label.split(" ", 2)[2]]))
    rows = reports.compared([found[label] for label in order])
    lines = []
    for row in rows:
        score, gain = row["test", "MAP@R"], row["minus gap", "MAP@R"]
        shares = [row["on target:", name].figure for name in ("weight", "weighted norm")]
        figures = [row["test", "P@1"].figure, score.figure, score.interval, *shares]
        lines.append([row.method, *figures, gain.figure, gain.interval or "-"])
    header = ["start: loss, pooling", "test P@1", "test MAP@R", "95 % interval", "weight on target"]
    header += ["weighted norm on target", "MAP@R minus gap's", "95 % interval"]
    return reports.Table("", header, lines, reports.footnotes(rows))


def show_demos() -> None:
    """Print MAP@R of the demo's recorded runs, by threads and instruction set."""
    folders = sorted(pathlib.Path(RECORDED).glob("demo_*"))
    cases = [folder.name.removeprefix("demo_").partition("_threads_") for folder in folders]
    names = [f"{plural(int(threads), 'thread')}, {instructions.upper()}" for threads, _, instructions in cases]
    studies = {name: StudyRows(folder) for name, folder in zip(names, folders)}
    found = {name: {label: _by_repeat(study, label) for label in labels_of(study)} for name, study in studies.items()}
    baseline, *_ = labels = sorted(next(iter(found.values())), key=lambda label: label.count("+"))
    lines = []
    for label in labels:
        cells = [f"{of[label].mean():.1f} [{of[label].min():.1f}, {of[label].max():.1f}]" for of in found.values()]
        gaps = np.concatenate([of[label] - of[baseline] for of in found.values()])
        differ = ["", ""] if label == baseline else [f"{gaps.mean():+.1f}", f"{gaps.std(ddof=1):.1f}"]
        lines.append([label, *cells, *differ])
    (repeats,) = {len(values) for of in found.values() for values in of.values()}
    note = f"Mean [lowest, highest] of {repeats} seeds. The last two columns are over all {repeats * len(found)} runs."
    table = reports.Table(
        "", ["trained by", *found, f"minus {baseline}", "runs differ by"], lines, [note]
    ).as_markdown()
    print(f"{table.rstrip()}\n\n{provenance([row for study in studies.values() for row in study.rows])}")


def _by_repeat(study: StudyRows, label: str) -> np.ndarray:
    rows = sorted(scores_of_trainings(study, label).rows, key=lambda row: row["repeat"])
    return np.array([100 * row["test"]["MAP@R"] for row in rows])


def deployed_models(study: StudyRows, folds: str, final: str) -> Labelled:
    """Tabulate models of `folds`, concatenated, and of `final` on all training classes."""
    of_folds, of_final = scores_of_trainings(study, folds), scores_of_trainings(study, final)
    joined = check_given(f"concatenated models of {folds}", collection_scores(study, folds))
    return models_table("", of_folds, joined, of_final), [folds, final]


def diagnostics(study: StudyRows) -> Labelled:
    """Correlate each diagnostic of the test embeddings with each metric (Spearman).

    Only repeats that all methods have count, so that methods weigh alike.
    """
    rows = [row for row in study.rows if row["kind"] == TRAINING]
    lacking = sum("diagnostics" not in row["extras"] for row in rows)
    if lacking:
        raise InvalidInput(f"{study.folder}: {lacking} of {len(rows)} runs have no diagnostics. Record them again.")
    datasets = sorted({row["dataset"] for row in rows})
    if len(datasets) > 1:
        raise InvalidInput(f"{study.folder} has rows of {', '.join(datasets)}: expected those of one data set.")
    of_methods: dict[str, set[int]] = {}
    for row in rows:
        of_methods.setdefault(row["label"], set()).add(row["repeat"])
    common = set.intersection(*of_methods.values())
    points = []
    for row in (row for row in rows if row["repeat"] in common):
        kept = row["extras"]["diagnostics"]
        figures = {name: kept[name] for name in NAMES if name in kept}
        scores = {metric: row["test"][metric] for metric in TABLE_METRICS if metric in row["test"]}
        points.append(Point(row["config_hash"], row["fold"], row["label"], scores, figures))
    table = correlation_table(points, datasets[0])
    notes = list(table.notes)
    if len(points) < len(rows):
        notes.append(f"{len(rows) - len(points)} runs of repeats that not all methods have are left out.")
    return reports.Table("", ["diagnostic", *table.header[1:]], table.rows, notes), list(of_methods)


def diagnostic_means(study: StudyRows, methods: str, names: str) -> Labelled:
    """Tabulate diagnostics (`names`, separated by commas): mean and range of runs."""
    labels, chosen, lines = _chosen("method", methods, labels_of(study)), _chosen("diagnostic", names, NAMES), []
    for label in labels:
        kept = [row["extras"].get("diagnostics", {}) for row in scores_of_trainings(study, label).rows]
        cells = []
        for name in chosen:
            values = [of[check_choice(f"diagnostic of {label}", name, of)] for of in kept]
            cells.append(f"{np.mean(values):.3f} ({min(values):.3f} to {max(values):.3f})")
        lines.append([_short(label), *cells])
    notes = ["Of the test embeddings: the mean of the runs, in brackets their range."]
    return reports.Table("", ["method", *chosen], lines, notes), labels


def count_parts() -> None:
    """Print the numbers of losses and poolings."""
    kinds: dict[str, tuple[type, Collection[str]]] = {
        "losses": (losses.MetricLoss, LOSSES),
        "poolings": (pooling.FeaturePooling, build.POOLINGS),
    }
    packages = losses, pooling, ccp_dml, gsp_dml, milbich_dml
    public = {getattr(package, name) for package in packages for name in package.__all__}
    layers = [
        each for each in public if inspect.isclass(each) and keras.utils.get_registered_name(each) != each.__name__
    ]
    counts = [
        f"{sum(issubclass(each, base) for each in layers)} {words} as layers, {len(names)} by name"
        for words, (base, names) in kinds.items()
    ]
    print(f"This project has {counts[0]} in commands; {counts[1]}.")


def loss_listing() -> None:
    """Print a table of the losses of `--loss`: name, class, compared items; proxies last."""
    print("| `--loss` | class | compares |\n|---|---|---|")
    for name in sorted(LOSSES, key=lambda each: each in PROXY_LOSSES):
        *parts, loss = _layers(LOSSES[name])
        of_parts = f" of {' and '.join(f'`{part}`' for part in parts)}" if parts else ""
        print(f"| `{name}` | `{loss}`{of_parts} | {'proxies' if name in PROXY_LOSSES else 'pairs'} |")


def documents_listing() -> None:
    """Print each document's items, with commands and gaps."""
    rows = read_csv("documents.csv")
    for document in dict.fromkeys(row["document"] for row in rows):
        print(f"\n## {document}\n\n| item | content | here | not here |\n|---|---|---|---|")
        for row in rows:
            if row["document"] == document:
                print(f"| {row['item']} | {row['content']} | {row['here'] or '-'} | {row['missing'] or '-'} |")


def _layers(loss: Loss) -> list[str]:
    """List a loss's layers, the outermost last: its class, or those in the source of its function."""
    constructor = constructor_of(loss.constructor)
    return [constructor.__name__] if inspect.isclass(constructor) else _LAYER.findall(inspect.getsource(constructor))


def _chosen(name: str, text: str, known: Collection[str]) -> list[str]:
    return [check_choice(name, of.strip(), known) for of in text.split(",")]


def _first(study: StudyRows) -> Row:
    return next(row for row in study.rows if row["kind"] == TRAINING)


def _joined_size(study: StudyRows) -> int:
    configuration = _first(study)["configuration"]
    return configuration["embedding_dim"] * configuration["num_folds"]


def _short(label: str | None) -> str:
    return f"`{(label or '').removesuffix('+gap')}`"


def _figure(cell: reports.TableCell, has_interval: bool = True) -> str:
    return f"{cell.figure} {cell.interval if has_interval else ''}".rstrip()
