"""Tables of results beside the printed figures: for the terminal, Markdown, LaTeX and CSV.

A method takes one line of figures as in the thesis (percent with two decimals, mean +- std over collections), and below
it a line each for the interval, the printed figure, the difference and the verdict, where there is one.
"""

from __future__ import annotations

import csv
import io
import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from experiments.reports.plain_tables import PlainTable
from experiments.reports.published_values import PublishedValue
from experiments.reports.statistics import FairEstimate
from experiments.reports.verdicts import difference

Column = tuple[str, str]  # (embedding size, metric), e.g. ("128-D", "MAP@R")

_CSV_PLACE = ("method", "size", "metric")
_CSV_MEASURED = ("mean", "std", "low", "high", "class_error", "training_error")
_CSV_PUBLISHED = ("published", "published_std", "published_table", "published_note")


@dataclass(frozen=True)
class TableCell:
    """One measured figure and what it is held against.

    Args:
        estimate: what was measured, in fractions.
        published: the printed cell, if there is one.
        verdict: from `verdicts.verdict`; `None` where none is due (the untrained row).
    """

    estimate: FairEstimate
    published: PublishedValue | None = None
    verdict: str | None = None


@dataclass(frozen=True)
class TableRow:
    """One method's figures by column. A column without a cell is shown as a dash."""

    method: str
    cells: Mapping[Column, TableCell]


def render_text(rows: Sequence[TableRow], title: str = "", notes: Sequence[str] = ()) -> str:
    """The table in aligned columns for a terminal, footnotes and further notes below."""
    return _plain(rows, title, notes).as_text()


def render_markdown(rows: Sequence[TableRow], title: str = "", notes: Sequence[str] = ()) -> str:
    """The table as GitHub Markdown, footnotes and further notes below."""
    return _plain(rows, title, notes).as_markdown()


def render_latex(rows: Sequence[TableRow], title: str = "", notes: Sequence[str] = ()) -> str:
    """The table as a LaTeX `tabular` without packages, footnotes and further notes below."""
    return _plain(rows, title, notes).as_latex()


def render_csv(rows: Sequence[TableRow]) -> str:
    """The table in long form, one line a cell; figures in percent, unrounded, empty where there is none."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow([*_CSV_PLACE, *_CSV_MEASURED, *_CSV_PUBLISHED, "difference", "verdict"])
    for row in rows:
        for (size, metric), cell in row.cells.items():
            writer.writerow([row.method, size, metric, *_csv_figures(cell), cell.verdict or ""])
    return text.getvalue()


def _csv_figures(cell: TableCell) -> list[object]:
    estimate, published = cell.estimate, cell.published
    bounds = estimate.interval
    ours = [estimate.mean, estimate.std]
    ours += [bounds.low, bounds.high, bounds.class_error, bounds.training_error] if bounds else [None] * 4
    theirs = [published.value, published.std, published.table, published.note] if published else [None] * 4
    percent = ["" if figure is None else 100 * figure for figure in ours]
    return [*percent, *("" if value is None else value for value in (*theirs, difference(estimate, published)))]


def _plain(rows: Sequence[TableRow], title: str, further_notes: Sequence[str]) -> PlainTable:
    columns = list(dict.fromkeys(column for row in rows for column in row.cells))
    reasons: list[str] = []  # of "not comparable", numbered in order of appearance
    groups = [_group(row, columns, reasons) for row in rows]
    estimates = [cell.estimate for row in rows for cell in row.cells.values()]
    notes = [f"[{number}] {reason}" for number, reason in enumerate(reasons, start=1)] + _footnotes(estimates)
    notes += further_notes
    lines = [line for group in groups for line in group]
    heads = set(itertools.accumulate([0, *map(len, groups)]))
    hanging = [index for index in range(len(lines)) if index not in heads]
    return PlainTable(title, ["method", *(" ".join(column) for column in columns)], lines, notes, hanging)


def _footnotes(estimates: Sequence[FairEstimate]) -> list[str]:
    notes = []
    if any(estimate.std is not None for estimate in estimates):
        notes.append(
            "± is the spread over collections of one model a fold, as the thesis prints it (conventional: repeats)."
        )
    bounds = [estimate.interval for estimate in estimates if estimate.interval]
    if bounds:
        notes.append(
            "The interval is for new test classes and new trainings (class-clustered bootstrap, repeats inside folds); "
            "a verdict uses its training part alone, for the printed figure has the same test classes."
        )
    if any(bound.training_error is None for bound in bounds):
        notes.append("† new test classes only: nothing was trained twice, so the spread of training is not known.")
    return notes


def _group(row: TableRow, columns: Sequence[Column], reasons: list[str]) -> list[list[str]]:
    """A method's lines: figures, then interval, published, difference and verdict where any column has one."""
    cells = [row.cells.get(column) for column in columns]
    group = [[row.method, *(_figure(cell) for cell in cells)]]
    confidence = next((cell.estimate.interval.confidence for cell in cells if cell and cell.estimate.interval), None)
    if confidence is not None:
        group.append([f"  {100 * confidence:g} % interval", *(_bounds(cell) for cell in cells)])
    if any(cell and cell.published for cell in cells):
        group.append(["  published", *(_printed(cell) for cell in cells)])
        group.append(["  difference", *(_difference(cell) for cell in cells)])
    if any(cell and cell.verdict for cell in cells):
        group.append(["  verdict", *(_verdict(cell, reasons) for cell in cells)])
    return group


def _figure(cell: TableCell | None) -> str:
    if cell is None:
        return "-"
    spread = cell.estimate.std
    return f"{100 * cell.estimate.mean:.2f}" + (f" ± {100 * spread:.2f}" if spread is not None else "")


def _bounds(cell: TableCell | None) -> str:
    if cell is None or cell.estimate.interval is None:
        return "-"
    bound = cell.estimate.interval
    mark = "†" if bound.training_error is None else ""
    return f"[{100 * bound.low:.2f}, {100 * bound.high:.2f}]{mark}"


def _printed(cell: TableCell | None) -> str:
    if cell is None or cell.published is None:
        return "-"
    published = cell.published
    if published.value is None:
        return published.status
    text = f"{published.value:.2f}" + (f" ± {published.std:.2f}" if published.std is not None else "")
    return text if published.is_target else f"{text} ({published.status})"


def _difference(cell: TableCell | None) -> str:
    gap = difference(cell.estimate, cell.published) if cell else None
    return "-" if gap is None else f"{gap:+.2f}"


def _verdict(cell: TableCell | None, reasons: list[str]) -> str:
    if cell is None or cell.verdict is None:
        return "-"
    word, _, reason = cell.verdict.partition(": ")
    if not reason:
        return word
    if reason not in reasons:
        reasons.append(reason)
    return f"{word} [{reasons.index(reason) + 1}]"
