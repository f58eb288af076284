"""Tables of results beside the printed figures: for the terminal, Markdown, LaTeX and CSV.

A method takes one line of figures as in the thesis (percent with two decimals, mean +- std over collections), and below
it a line each for the interval, the printed figure, the difference, the verdict and the smallest difference between two
methods that the design could have detected, where there is one.
"""

from __future__ import annotations

import csv
import io
import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from experiments.reports.plain_tables import PlainTable
from experiments.reports.published_values import PublishedValue
from experiments.reports.statistics import FairEstimate
from experiments.reports.verdicts import difference

Column = tuple[str, str]  # (embedding size, metric), e.g. ("128-D", "MAP@R")

_CSV_PLACE = ("method", "size", "metric")
_CSV_MEASURED = ("mean", "std", "low", "high", "class_error", "training_error")
_CSV_PUBLISHED = ("published", "published_std", "published_table", "published_note")
SPREAD_NOTE = (
    "± is the spread over collections of one model a fold, as the thesis prints it (conventional: over repeats). The "
    "collections (81 of three repeats in four folds) share their few models and are not independent: of R repeats, ± "
    "shows sqrt((R - 1)/R) of the spread of a fresh collection, is no error of the mean to be divided by the root of "
    "their number, and knows nothing of the choice of test classes."
)
SIGNIFICANT_NOTE = (
    "Starred: differences whose interval, of new test classes and new trainings, excludes zero. None is starred where "
    "the spread of training is not known (†)."
)
CUT_NOTE = (
    "Intervals end at 0 and 100 (of differences: at -100 and 100): what would reach beyond, where no figure can lie, "
    "is cut off."
)
DETECTABLE_NOTE = (
    "detectable: the smallest true difference of the two methods that this design (these test classes, folds and "
    "repeats) would find significant in 80 % of studies; smaller ones may exist and go unseen."
)


@dataclass(frozen=True)
class TableCell:
    """One measured figure and what it is held against.

    Args:
        estimate: what was measured, in fractions.
        published: the printed cell, if there is one.
        verdict: from `verdicts.verdict`; `None` where none is due (the untrained row).
        is_difference: whether the figure is the difference of two methods; it is shown with its sign and with the
            smallest difference that the design could have detected, and marked where it is significant.
    """

    estimate: FairEstimate
    published: PublishedValue | None = None
    verdict: str | None = None
    is_difference: bool = False

    @property
    def ends(self) -> tuple[float, float] | None:
        """The ends of its interval as they are shown, in fractions; `None` without one. See `Interval.ends`."""
        bounds = self.estimate.interval
        return bounds.ends(of_difference=self.is_difference) if bounds else None

    @property
    def is_significant(self) -> bool:
        """Whether it is a difference whose interval excludes zero; never if trainings have no part in the interval."""
        bounds = self.estimate.interval
        if not self.is_difference or bounds is None or bounds.training_error is None:
            return False
        return bounds.low > 0 or bounds.high < 0


@dataclass(frozen=True)
class TableRow:
    """One method's figures by column. A column without a cell is shown as a dash."""

    method: str
    cells: Mapping[Column, TableCell]


class CellText(NamedTuple):
    """A cell in words, empty where there is nothing to say.

    Attributes:
        figure: percent, with the spread over collections; a star at a significant difference.
        interval: its interval.
        published: the printed figure.
        difference: measured minus printed.
        verdict: in one word or two; the reason stands apart.
        reason: why measured and printed are not comparable.
        detectable: the smallest difference that the design could have detected.
    """

    figure: str
    interval: str = ""
    published: str = ""
    difference: str = ""
    verdict: str = ""
    reason: str = ""
    detectable: str = ""


def cell_text(cell: TableCell | None) -> CellText:
    """What a table says in a cell; a dash for none."""
    if cell is None:
        return CellText("-")
    gap = difference(cell.estimate, cell.published)
    word, _, reason = (cell.verdict or "").partition(": ")
    return CellText(
        figure=_figure(cell),
        interval=_bounds(cell),
        published=_printed(cell),
        difference="" if gap is None else f"{gap:+.2f}",
        verdict=word,
        reason=reason,
        detectable=_detectable(cell),
    )


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
    writer.writerow([*_CSV_PLACE, *_CSV_MEASURED, *_CSV_PUBLISHED, "difference", "verdict", "detectable"])
    for row in rows:
        for (size, metric), cell in row.cells.items():
            writer.writerow([row.method, size, metric, *_csv_figures(cell), cell.verdict or "", _csv_detectable(cell)])
    return text.getvalue()


def _csv_figures(cell: TableCell) -> list[object]:
    estimate, published = cell.estimate, cell.published
    bounds = estimate.interval
    ours = [estimate.mean, estimate.std]
    ours += [*cell.ends, bounds.class_error, bounds.training_error] if bounds else [None] * 4
    theirs = [published.value, published.std, published.table, published.note] if published else [None] * 4
    percent = ["" if figure is None else 100 * figure for figure in ours]
    return [*percent, *("" if value is None else value for value in (*theirs, difference(estimate, published)))]


def _csv_detectable(cell: TableCell) -> float | str:
    bounds = cell.estimate.interval
    return 100 * bounds.detectable_difference() if cell.is_difference and bounds else ""


def _plain(rows: Sequence[TableRow], title: str, further_notes: Sequence[str]) -> PlainTable:
    columns = list(dict.fromkeys(column for row in rows for column in row.cells))
    reasons: list[str] = []  # of "not comparable", numbered in order of appearance
    groups = [_group(row, columns, reasons) for row in rows]
    notes = [f"[{number}] {reason}" for number, reason in enumerate(reasons, start=1)] + footnotes(rows)
    notes += further_notes
    lines = [line for group in groups for line in group]
    heads = set(itertools.accumulate([0, *map(len, groups)]))
    hanging = [index for index in range(len(lines)) if index not in heads]
    return PlainTable(title, ["method", *(" ".join(column) for column in columns)], lines, notes, hanging)


def footnotes(rows: Sequence[TableRow]) -> list[str]:
    """What a reader of these rows must know about ±, intervals and differences."""
    notes, cells = [], [cell for row in rows for cell in row.cells.values()]
    if any(cell.estimate.std is not None for cell in cells):
        notes.append(SPREAD_NOTE)
    bounds = [cell.estimate.interval for cell in cells if cell.estimate.interval]
    if bounds:
        notes.append(
            "The interval is for new test classes and new trainings (class-clustered bootstrap, repeats inside folds); "
            "a verdict uses its training part alone, for the printed figure has the same test classes."
        )
    if any(cell.ends != (cell.estimate.interval.low, cell.estimate.interval.high) for cell in cells if cell.ends):
        notes.append(CUT_NOTE)
    if any(bound.training_error is None for bound in bounds):
        notes.append("† new test classes only: nothing was trained twice, so the spread of training is not known.")
    if any(cell.is_difference and cell.estimate.interval for cell in cells):
        notes.append(SIGNIFICANT_NOTE)
    if any(_detectable(cell) for cell in cells):
        notes.append(DETECTABLE_NOTE)
    return notes


def _group(row: TableRow, columns: Sequence[Column], reasons: list[str]) -> list[list[str]]:
    """A method's lines: figures, then interval, published, difference and verdict where any column has one."""
    texts = [cell_text(row.cells.get(column)) for column in columns]
    bounds = [cell.estimate.interval for cell in row.cells.values() if cell.estimate.interval]
    group = [[row.method, *(text.figure for text in texts)]]
    if bounds:
        group.append([f"  {100 * bounds[0].confidence:g} % interval", *(text.interval or "-" for text in texts)])
    if any(text.published for text in texts):
        group.append(["  published", *(text.published or "-" for text in texts)])
        group.append(["  difference", *(text.difference or "-" for text in texts)])
    if any(text.verdict for text in texts):
        group.append(["  verdict", *(_numbered(text, reasons) for text in texts)])
    if any(text.detectable for text in texts):
        group.append(["  detectable", *(text.detectable or "-" for text in texts)])
    return group


def _figure(cell: TableCell) -> str:
    spread = cell.estimate.std
    figure = f"{100 * cell.estimate.mean:{'+' if cell.is_difference else ''}.2f}{'*' if cell.is_significant else ''}"
    return figure + (f" ± {100 * spread:.2f}" if spread is not None else "")


def _bounds(cell: TableCell) -> str:
    bound = cell.estimate.interval
    if bound is None:
        return ""
    mark = "†" if bound.training_error is None else ""
    low, high = cell.ends
    return f"[{100 * low:.2f}, {100 * high:.2f}]{mark}"


def _detectable(cell: TableCell) -> str:
    """Nothing for a method against itself, whose difference is zero whatever is drawn."""
    bound = cell.estimate.interval
    smallest = bound.detectable_difference() if cell.is_difference and bound else 0.0
    return f"{100 * smallest:.2f}" if smallest else ""


def _printed(cell: TableCell) -> str:
    published = cell.published
    if published is None:
        return ""
    if published.value is None:
        return published.status
    text = f"{published.value:.2f}" + (f" ± {published.std:.2f}" if published.std is not None else "")
    return text if published.is_target else f"{text} ({published.status})"


def _numbered(text: CellText, reasons: list[str]) -> str:
    """The verdict, with the number of its reason among `reasons`, which grow."""
    if not text.reason:
        return text.verdict or "-"
    if text.reason not in reasons:
        reasons.append(text.reason)
    return f"{text.verdict} [{reasons.index(text.reason) + 1}]"
