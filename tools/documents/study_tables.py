"""Tables and pictures of sweeps, and of studies whose rows name baselines."""

from __future__ import annotations

import pathlib
from collections.abc import Sequence

import numpy as np

from common.errors import InvalidInput, check_choice
from experiments import reports
from experiments.plans.sweep import (
    INTERVAL,
    SWEEP,
    MeasuredPoint,
    SweepAxes,
    draw_sweep,
    sweep_table,
    sweep_value,
)
from experiments.protocols.one_split import cell
from experiments.reports.sweeps import SweepValue, sweep_lines
from experiments.rows.fair_rows import MINUS, SINGLE
from experiments.rows.rows import TRAINING
from experiments.rows.scores import labels_of, scores_of_trainings, training_scores
from experiments.rows.store import StudyRows
from experiments.studies.pooling_comparison import draw_poolings

_COMPARED_WITH = " minus "  # between a method and what a document compares it with


def sweep(study: StudyRows) -> tuple[reports.PlainTable, list[str]]:
    """Tabulate the points of a sweep, such as figure 3.8.

    Args:
        study: its rows.

    Raises:
        InvalidInput: they are of no sweep.
    """
    axes, points = _measured_points(study)
    return sweep_table("", axes, list(points.values())), list(points)


def draw_recorded_sweep(study: StudyRows, path: pathlib.Path, title: str) -> None:
    """Draw the lines of a sweep.

    Args:
        study: its rows.
        path: of the PNG.
        title: above the axes.

    Raises:
        InvalidInput: the rows are of no sweep.
    """
    axes, points = _measured_points(study)
    draw_sweep(title, axes, list(points.values()), path)


def draw_sweep_differences(study: StudyRows, path: pathlib.Path, title: str) -> None:
    """Draw paired test differences of each series from the first, point by point.

    Args:
        study: its rows.
        path: of the PNG.
        title: above the axes.

    Raises:
        InvalidInput: the rows are of no sweep, or a point lacks the first series.
    """
    axes, points = _measured_points(study)
    first = next(iter(points.values())).series
    baselines = {point.value.x: label for label, point in points.items() if point.series == first}
    lines: dict[str, list[SweepValue]] = {}
    for label, point in points.items():
        if point.series != first:
            baseline = baselines[check_choice(f"place of {label}, compared with {first} at", point.value.x, baselines)]
            ours, theirs = (scores_of_trainings(study, of) for of in (label, baseline))
            gap = ours.difference(theirs, "MAP@R")
            value = SweepValue(point.value.x, gap.estimate, *gap.ends(of_difference=True), INTERVAL + gap.kind)
            lines.setdefault(f"{point.series} minus {first}", []).append(value)
    labels = {"x_label": axes.x_label, "y_label": "difference in test MAP@R (points)", "title": title}
    sweep_lines(lines, path, logarithmic=axes.logarithmic, **labels)


def held_against(study: StudyRows) -> tuple[reports.PlainTable, list[str]]:
    """Tabulate each method's test figures and MAP@R minus its recorded baseline's.

    Args:
        study: its rows.

    Raises:
        InvalidInput: no row names a baseline.
    """
    extras = {row["label"]: row["extras"] for row in study.rows if "held against" in row.get("extras", {})}
    if not extras:
        raise InvalidInput(
            f"{study.folder}: no row says what its method is compared with. Expected those of figure 3.7 or 5.12."
        )
    labels = sorted(extras, key=lambda label: extras[label]["place"])
    return _compared_table(study, [(label, extras[label]["held against"]) for label in labels]), labels


def compared(study: StudyRows, methods: str) -> tuple[reports.PlainTable, list[str]]:
    """Tabulate methods' test figures and MAP@R minus the document's baselines.

    Args:
        study: its rows.
        methods: labels, separated by ` | `, each alone or with ` minus ` and another label of the study.

    Raises:
        InvalidInput: an unknown method, or one given twice.
    """
    known, pairs = labels_of(study), []
    for text in methods.split(" | "):
        label, _, baseline = text.strip().partition(_COMPARED_WITH)
        check_choice("method", label, known)
        pairs.append((label, check_choice("method", baseline, known) if baseline else None))
    labels = [label for label, _ in pairs]
    if len(set(labels)) < len(labels):
        raise InvalidInput(f"compared(methods={methods}): a method stands there twice. Expected each once.")
    return _compared_table(study, pairs), labels


def _compared_table(study: StudyRows, pairs: Sequence[tuple[str, str | None]]) -> reports.PlainTable:
    """Tabulate each method with its baseline, one line each."""
    rows = reports.compared([compared_row(study, label, baseline) for label, baseline in pairs])
    lines = []
    for row, (_, baseline) in zip(rows, pairs, strict=True):
        texts = {column: reports.cell_text(of) for column, of in row.cells.items()}
        figures = [f"{text.figure} {text.interval}".rstrip() for text in (texts[SINGLE, "P@1"], texts[SINGLE, "MAP@R"])]
        gap = texts.get((MINUS, "MAP@R"))
        difference = [baseline, f"{gap.figure} {gap.interval}", gap.detectable] if gap else ["-"] * 3
        lines.append([row.method, *figures, *difference])
    header = ["method", "test P@1", "test MAP@R", "compared with", "difference, MAP@R", "detectable"]
    return reports.PlainTable("", header, lines, reports.footnotes(rows))


def draw_recorded_poolings(study: StudyRows, path: pathlib.Path, title: str) -> None:
    """Draw figure 5.12: bars of test MAP@R, by loss and pooling.

    Args:
        study: its rows, a method for each loss and pooling.
        path: of the PNG.
        title: above the axes.
    """
    estimates = {}
    for label in labels_of(study):
        scores = scores_of_trainings(study, label)
        config = scores.rows[0]["configuration"]
        estimates[config["loss"], config["pooling"]] = scores.estimate("MAP@R")
    draw_poolings(estimates, path, title)


def best_steps(study: StudyRows, methods: str) -> tuple[reports.PlainTable, list[str]]:
    """Tabulate steps until the best validation, as in table 3.3.

    Args:
        study: its rows.
        methods: labels, separated by commas; one with `+ccp` follows its baseline, the same loss without.

    Raises:
        InvalidInput: the study has no such method.
    """
    labels = [check_choice("method", label.strip(), labels_of(study)) for label in methods.split(",")]
    medians: dict[str, float] = {}
    lines = []
    for label in labels:
        rows = scores_of_trainings(study, label).rows
        best = [row["best_step"] for row in rows]
        medians[label] = float(np.median(best))
        base = medians.get(label.replace("+ccp", "")) if "+ccp" in label else None
        change = f"{100 * (medians[label] / base - 1):+.0f} %" if base else "-"
        cut = sum(row["steps"] >= row["configuration"]["max_steps"] for row in rows)
        counted = f"{cut} of {len(rows)}"
        lines.append([label, f"{medians[label]:,.0f}", f"{min(best):,} to {max(best):,}", change, counted])
    header = ["method", "median steps to best", "range over runs", "with CCP", "ended by the budget"]
    return reports.PlainTable("", header, lines), labels


def compared_row(study: StudyRows, label: str, baseline: str | None) -> reports.TableRow:
    """Return a method's P@1 and MAP@R, and the difference from its baseline.

    Args:
        study: its rows.
        label: of the method.
        baseline: label of another method, or None. Without the same runs of it, there is no difference.
    """
    scores = scores_of_trainings(study, label)
    cells = {(SINGLE, metric): cell(scores.estimate(metric)) for metric in ("P@1", "MAP@R")}
    other = training_scores(study, baseline) if baseline is not None else None
    if baseline is not None and other is not None and scores.places == other.places:
        cells[MINUS, "MAP@R"] = cell(scores.difference(other, "MAP@R"), is_difference=True, baseline=baseline)
    return reports.TableRow(label, cells)


def _measured_points(study: StudyRows) -> tuple[SweepAxes, dict[str, MeasuredPoint]]:
    """Return the axes, and the points by label in the study's order."""
    rows = [row for row in study.rows if row["kind"] == TRAINING]
    sweeps = {row["label"]: row["extras"][SWEEP] for row in rows if SWEEP in row["extras"]}
    found = [row["extras"][SWEEP] for row in rows if SWEEP in row["extras"]]
    axes = {tuple(of[name] for name in ("x_label", "held_out", "logarithmic")) for of in found}
    if len(axes) != 1 or set(sweeps) != set(labels_of(study)):
        raise InvalidInput(
            f"{study.folder} is no sweep: expected rows of one figure over one hyper-parameter, such as 3.8."
        )
    (chosen,) = (SweepAxes(*of) for of in axes)
    points = {}
    for label in sorted(sweeps, key=lambda label: sweeps[label]["place"]):
        scores = scores_of_trainings(study, label)
        validations = [row["validation"]["MAP@R"] for row in scores.rows]
        value = sweep_value(sweeps[label]["x"], validations, scores if chosen.held_out == "test" else None)
        points[label] = MeasuredPoint(sweeps[label]["series"], value, len(scores.rows))
    return chosen, points
