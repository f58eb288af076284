"""The Markdown of blocks and values, from the rows of a study."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence

import numpy as np

from common.errors import InvalidInput, check_choice, check_given
from experiments import reports
from experiments.protocols.one_split import cell
from experiments.reports.deployed_models import METRICS, models_table
from experiments.reports.projection_runs import runs_without_problem
from experiments.reports.selection_plot import SelectionPoint
from experiments.rows.fair_rows import (
    CONCATENATED,
    MINUS,
    SINGLE,
    complete_repeats,
    method_difference,
    table_rows,
    untrained_means,
)
from experiments.rows.rows import TRAINING
from experiments.rows.scores import (
    RecordedScores,
    collection_scores,
    labels_of,
    scores_of_trainings,
    training_scores,
)
from experiments.rows.store import StudyRows
from experiments.studies.agreement_tables import ranking_table, sign_table
from experiments.studies.study_agreement import study_agreement
from experiments.studies.token_selection import TokenMethod, selection_table
from experiments.studies.tuned_table import table_of_trials
from tools.documents.analysis_tables import diagnostic_means, diagnostics, feature_slices, refined_metrics
from tools.documents.compared_methods import baselines_of, difference_in_table
from tools.documents.figure_tables import lambda_search, mnist_problems, proposition, zero_shot, zero_shot_ridges
from tools.documents.marked_blocks import Block, Value
from tools.documents.provenance import provenance
from tools.documents.study_tables import best_steps, compared, compared_row, held_against, sweep


def markdown_of(block: Block, study: StudyRows) -> str:
    """Return the content of a block: a table and its line of provenance.

    Args:
        block: names its builder.
        study: with at least one row.

    Raises:
        InvalidInput: no builder has that name, or an argument is missing or unknown.
    """
    build = BUILDERS[check_choice("results block", block.name, BUILDERS)]
    arguments = {name: value for name, value in block.arguments.items() if name != "study"}
    try:
        inspect.signature(build).bind(study, **arguments)
    except TypeError as error:
        raise InvalidInput(f"{block.head}: {error}.") from error
    table, labels = build(study, **arguments)
    rows = [row for row in study.rows if row["label"] in labels]
    return f"{table.as_markdown().rstrip()}\n\n{provenance(rows)}\n"


def text_of(value: Value, study: StudyRows) -> str:
    """Return a metric (%), interval, difference, number of runs or mean of extras.

    `minus METHOD` is the difference of MAP@R from another method (as in the study's table, if that compares the two),
    `runs` the number, and `extra NAME` the mean of a further value of the rows.

    Args:
        value: to format.
        study: with at least one row.

    Raises:
        InvalidInput: the study has no such method or metric.
    """
    label = check_choice(f"method in the value {value}", value.label, labels_of(study))
    kind, metric = training_scores, value.metric
    if metric == "runs":
        return str(len(scores_of_trainings(study, label).rows))
    if metric.startswith("extra "):
        rows, name = scores_of_trainings(study, label).rows, metric.removeprefix("extra ")
        values = [row["extras"][check_choice(f"extra in the value {value}", name, row["extras"])] for row in rows]
        return f"{np.mean(values):.3f}"
    if metric.startswith("minus "):
        other, ending = metric.removeprefix("minus "), " interval"
        wants_interval = other.endswith(ending)
        other = check_choice(f"method in the value {value}", other.removesuffix(ending), labels_of(study))
        text = difference_in_table(study, label, other) or _text(method_difference(study, label, other), other)
        return text.interval if wants_interval else text.figure.removesuffix("*")
    if metric.startswith("untrained "):
        means = untrained_means(study, [label])
        return f"{100 * means[check_choice('metric', metric.removeprefix('untrained '), means)]:.2f}"
    if metric.startswith("concatenated "):
        kind, metric = collection_scores, metric.removeprefix("concatenated ")
    wants_interval = metric.endswith(" interval")
    metric = check_choice("metric", metric.removesuffix(" interval"), ("MAP@R", "P@1"))
    scores = kind(study, label)
    if scores is None:
        raise InvalidInput(f"{study.name} has no concatenated models of {label}: a fold is missing.")
    text = _text(scores.estimate(metric))
    return text.interval if wants_interval else text.figure


def fair_table(study: StudyRows, table: str) -> tuple[reports.PlainTable, list[str]]:
    """Tabulate a table's methods, single and concatenated, beside their baselines.

    Args:
        study: its rows.
        table: whose methods, of `experiments.table`.
    """
    baselines = baselines_of(study, table)
    rows, lines = table_rows(study, baselines), []
    for row in rows:
        texts = {column: reports.cell_text(cell) for column, cell in row.cells.items()}
        baseline = baselines[row.method] if (MINUS, "MAP@R") in texts else None
        gap = texts.get((MINUS, "MAP@R"))
        lines.append(
            [
                f"`{_short(row.method)}`",
                texts[SINGLE, "P@1"].figure,
                _with_interval(texts[SINGLE, "MAP@R"]),
                _with_interval(texts.get((CONCATENATED, "MAP@R"))),
                f"`{_short(baseline)}`" if baseline else "-",
                _with_interval(gap),
                gap.detectable if gap else "-",
            ]
        )
    labels = [row.method for row in rows]
    header = ["method", "P@1", "MAP@R", f"MAP@R, {_joined_size(study)}-D", "compared with", "difference, MAP@R"]
    notes = [_untrained_note(study, labels), *_left_out(baselines, labels), *_without_problem(study, labels)]
    notes += reports.footnotes(rows)
    return reports.PlainTable("", [*header, "detectable"], lines, notes), labels


def trials(study: StudyRows, table: str = "warm") -> tuple[reports.PlainTable, list[str]]:
    """Tabulate the trials of each tuned method and their validation.

    Args:
        study: its rows.
        table: whose methods, of `experiments.table`.

    Raises:
        InvalidInput: no trials were recorded with it.
    """
    rows = {row["label"]: row for row in study.rows if row["kind"] == TRAINING and "trials" in row["extras"]}
    if not rows:
        raise InvalidInput(f"{study.folder} has no trials: expected rows of `experiments.table --id={table}`.")
    ordered = [label for label in baselines_of(study, table) if label in rows]
    return table_of_trials("", {label: rows[label]["extras"]["trials"] for label in ordered}), ordered


def fair_summary(study: StudyRows, methods: str) -> tuple[reports.PlainTable, list[str]]:
    """Tabulate P@1, MAP@R of some methods and the untrained network, without intervals.

    Args:
        study: its rows.
        methods: their labels, separated by commas.
    """
    labels = [check_choice("method", label.strip(), labels_of(study)) for label in methods.split(",")]
    dim = _first(study, labels[0])["configuration"]["embedding_dim"]
    columns = [(kind, metric) for kind in (SINGLE, CONCATENATED) for metric in ("P@1", "MAP@R")]
    sizes = {SINGLE: f"single {dim}-D", CONCATENATED: f"concatenated {_joined_size(study)}-D"}
    before = untrained_means(study, labels)
    lines = [["untrained backbone", *(f"{100 * before[metric]:.2f}" for metric in before), "-", "-"]]
    for row in table_rows(study, dict.fromkeys(labels)):
        lines.append([row.method, *(reports.cell_text(row.cells.get(column)).figure for column in columns)])
    header = ["characters unseen in training", *(f"{sizes[kind]} {metric}" for kind, metric in columns)]
    return reports.PlainTable("", header, lines), labels


def agreement(study: StudyRows) -> tuple[reports.PlainTable, list[str]]:
    """Tabulate rank correlations with printed tables, the ceiling and stand-in verdicts.

    Args:
        study: its rows.
    """
    found = study_agreement(study)
    return ranking_table(found), [label for of in found for label in of.labels]


def agreement_signs(study: StudyRows) -> tuple[reports.PlainTable, list[str]]:
    """Tabulate effects of memory, CCP, GSP and regularisation, here and as published.

    Args:
        study: its rows.
    """
    found = study_agreement(study)
    labels = [label for of in found for effect in of.effects for label in (effect.label, effect.baseline)]
    return sign_table(found), labels


def token_table(study: StudyRows) -> tuple[reports.PlainTable, list[str]]:
    """Build figure 5.4's table.

    Args:
        study: its rows.
    """
    methods = token_methods(study)
    table = selection_table("", methods)
    return reports.PlainTable("", table.header, table.rows, table.notes), list(methods)


def collage_table(study: StudyRows) -> tuple[reports.PlainTable, list[str]]:
    """Build figure 5.5's table: test figures, target shares, gain over GAP.

    Args:
        study: its rows.
    """
    labels = _collage_order(study)
    rows = reports.compared([_collage_row(study, label) for label in labels])
    lines = []
    for row in rows:
        shares = [
            share for of in scores_of_trainings(study, row.method).rows if (share := of["extras"].get("target_shares"))
        ]
        on_target = [
            f"{100 * np.mean([share[name] for share in shares]):.2f}" if shares else "-"
            for name in ("weight_on_target", "norm_on_target")
        ]
        texts = {column: reports.cell_text(cell) for column, cell in row.cells.items()}
        score, gain = texts[SINGLE, "MAP@R"], texts.get((MINUS, "MAP@R"))
        figures = [texts[SINGLE, "P@1"].figure, score.figure, score.interval, *on_target]
        lines.append([row.method, *figures, *([gain.figure, gain.interval] if gain else ["-", "-"])])
    header = ["start: loss, pooling", "test P@1", "test MAP@R", "95 % interval", "weight on target"]
    header += ["weighted norm on target", "MAP@R minus gap's", "95 % interval"]
    return reports.PlainTable("", header, lines, reports.footnotes(rows)), labels


def deployed_models(study: StudyRows, folds: str, final: str) -> tuple[reports.PlainTable, list[str]]:
    """Tabulate deployable models: per fold, concatenated, and on all training classes.

    Args:
        study: its rows.
        folds: label of the folds' runs.
        final: label of the run on all training classes.
    """
    of_folds, of_final = scores_of_trainings(study, folds), scores_of_trainings(study, final)
    joined = check_given(f"concatenated models of {folds}", collection_scores(study, folds))

    def row_of(scores: RecordedScores, index: int) -> dict[str, reports.ClassScores]:
        return {metric: scores.class_scores(metric).rows([index]) for metric in METRICS}

    table = models_table(
        "",
        [row_of(of_folds, index) for index in range(len(of_folds.rows))],
        row_of(joined, 0),
        row_of(of_final, 0),
        steps=[row["best_step"] for row in of_folds.rows],
        final_steps=of_final.rows[0]["steps"],
        dim=_first(study, folds)["configuration"]["embedding_dim"],
    )
    return table, [folds, final]


def _collage_row(study: StudyRows, label: str) -> reports.TableRow:
    """Return a method's test figures and its MAP@R minus GAP's from that start."""
    average = _average_of(label)
    return compared_row(study, label, average if average != label else None)


def seeds(study: StudyRows, metric: str = "MAP@R") -> tuple[reports.PlainTable, list[str]]:
    """Tabulate a metric of every single run, method by method.

    Args:
        study: its rows.
        metric: of the test set.
    """
    labels, lines = labels_of(study), []
    for label in labels:
        scores = scores_of_trainings(study, label)
        values = [100 * row["test"][check_choice("metric", metric, row["test"])] for row in scores.rows]
        lines.append([label, f"{np.mean(values):.2f}", ", ".join(f"{value:.2f}" for value in values)])
    return reports.PlainTable("", ["method", f"{metric}, mean", "each run"], lines), labels


BUILDERS: Mapping[str, Callable[..., tuple[reports.PlainTable, Sequence[str]]]] = {
    "agreement": agreement,
    "agreement_signs": agreement_signs,
    "best_steps": best_steps,
    "collage_table": collage_table,
    "compared": compared,
    "deployed_models": deployed_models,
    "diagnostic_means": diagnostic_means,
    "diagnostics": diagnostics,
    "fair_summary": fair_summary,
    "fair_table": fair_table,
    "feature_slices": feature_slices,
    "held_against": held_against,
    "lambda_search": lambda_search,
    "mnist_problems": mnist_problems,
    "proposition": proposition,
    "refined_metrics": refined_metrics,
    "seeds": seeds,
    "sweep": sweep,
    "token_table": token_table,
    "trials": trials,
    "zero_shot": zero_shot,
    "zero_shot_ridges": zero_shot_ridges,
}


def token_methods(study: StudyRows) -> dict[str, TokenMethod]:
    """Return the runs of figure 5.4 by method."""
    methods = {}
    for label in labels_of(study):
        scores = scores_of_trainings(study, label)
        points = [SelectionPoint(row["extras"]["weight_on_own"], row["test"]["MAP@R"]) for row in scores.rows]
        in_others = [row["extras"]["in_other_hulls"] for row in scores.rows]
        methods[label] = TokenMethod(scores, scores.places, points, in_others)
    return methods


def _first(study: StudyRows, label: str) -> dict:
    return next(row for row in study.rows if row["kind"] == TRAINING and row["label"] == label)


def _joined_size(study: StudyRows) -> int:
    configuration = next(row for row in study.rows if row["kind"] == TRAINING)["configuration"]
    return configuration["embedding_dim"] * configuration["num_folds"]


def _short(label: str) -> str:
    return label.removesuffix("+gap")


def _with_interval(text: reports.CellText | None) -> str:
    return f"{text.figure} {text.interval}".rstrip() if text else "-"


def _text(interval: reports.Interval, baseline: str | None = None) -> reports.CellText:
    return reports.cell_text(cell(interval, is_difference=baseline is not None, baseline=baseline or ""))


def _untrained_note(study: StudyRows, labels: Sequence[str]) -> str:
    means = untrained_means(study, labels)
    return (
        f"Before training the backbone's average features have MAP@R {100 * means['MAP@R']:.2f} and P@1 "
        f"{100 * means['P@1']:.2f}."
    )


def _left_out(baselines: Mapping[str, object], labels: Sequence[str]) -> list[str]:
    missing = [label for label in baselines if label not in labels]
    names = ", ".join(f"`{_short(label)}`" for label in missing)
    return [f"Without rows of every fold, and so not in the table: {names}."] if missing else []


def _without_problem(study: StudyRows, labels: Sequence[str]) -> list[str]:
    notes = []
    for label in labels:
        rows = scores_of_trainings(study, label, complete_repeats(study, label)).rows
        if clause := runs_without_problem([row["extras"].get("problems") for row in rows]):
            notes.append(f"`{_short(label)}`: {clause}.")
    return notes


def _average_of(label: str) -> str:
    """Return GAP's label for the same start and loss: `start: loss gap`."""
    start, _, method = label.partition(": ")
    return f"{start}: {method.split(' ')[0]} gap"


def _collage_order(study: StudyRows) -> list[str]:
    """Sort starts by name; in each, average pooling is first, distilled data last."""
    poolings = ("gap", "gsp", "gsp + L_ZS", "gap, distilled")
    order = {pooling: place for place, pooling in enumerate(poolings)}
    return sorted(labels_of(study), key=lambda label: (label.split(" ")[:2], order[label.split(" ", 2)[2]]))
