"""Table of the fair protocol: methods beside printed figures and their baselines."""

from __future__ import annotations

import abc
import dataclasses
import pathlib
from collections.abc import Mapping, Sequence
from typing import Any

from common.errors import check_choice
from experiments import reports
from experiments.plans.study import Cell, FinishedCells, Study, StudyOptions, finished_rows, trainings
from experiments.protocols.fair_report import FairReport
from experiments.protocols.report import lines_of, report_of, written
from experiments.published.values import DISSERTATION
from experiments.settings.method_names import parse_method

THESIS_REPEATS = {3: 1, 5: 3}  # of each fold, by chapter
_MOST_IN_ORDER = 20  # rows of a picture in the order of their table, with bars of both sizes


@dataclasses.dataclass(frozen=True)
class FairRow:
    """Row of a table."""

    method: str  # as `parse_method` reads it
    printed: str | None = None  # label in the printed table; None: any figures that the thesis prints for the method
    baseline: str | None = None  # label of the row compared with; None: the row is a baseline
    # configuration fields that distinguish the row from others of its method
    settings: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    variant: str = ""  # the settings in a word or two; part of the label

    @property
    def label(self) -> str:
        """The row's name here."""
        return f"{self.method}, {self.variant}" if self.variant else self.method


class MethodsTable(Study, abc.ABC):
    """Table whose rows are methods of the fair protocol."""

    table: str | None  # the thesis' number
    repeats: int  # of each fold in a complete row
    rows: Mapping[str, FairRow]

    @abc.abstractmethod
    def cells_of(self, label: str, finished: FinishedCells) -> list[Cell]:
        """Return the cells of a row, if known."""

    def render(self, finished: FinishedCells, folder: pathlib.Path, name: str) -> str:
        """Write the table of complete rows and their picture; summarize the rest."""
        methods = {}
        for label, row in self.rows.items():
            cells = self.cells_of(label, finished)
            runs = finished_rows(cells, finished)
            if runs:
                printed = (self.table, row.printed) if self.table and row.printed else None
                of_row = row.label, printed, row.settings
                methods[label] = FairReport(cells[0].config, runs, self.repeats, *of_row)
        found = [*methods.values()]
        report = report_of(found, baselines={label: self.rows[label].baseline for label in methods})
        said = written(report, found, folder, name, self.title, self.notes, has_recall=False) + lines_of(found)
        if report.rows:
            before = {metric: cell.mean for row in report.before[:1] for (_, metric), cell in row.cells.items()}
            draw_rows(report.rows, folder / f"{name}.png", title=self.title, untrained=before.get("MAP@R"))
            said.append(f"Figure: {folder / f'{name}.png'}")
        return "\n".join(text for text in said if text)


class FairTable(MethodsTable):
    """Rows of the fair protocol on one data set.

    `--loss` selects those of some losses. Any budget runs all folds, since their models are concatenated. Settings are
    those of chapter 3 or 5.
    """

    def __init__(
        self,
        title: str,
        table: str | None,
        rows: Sequence[FairRow],
        options: StudyOptions,
        chapter: int,
        notes: Sequence[str] = (),
    ):
        self.title, self.table, self.repeats = title, table, options.repeats
        # Two folds are the fewest that concatenate anything.
        settings = {"num_folds": 2} if options.budget == "smoke" else {}
        self.rows = {row.label: row for row in choose_rows(rows, options.losses)}
        self.groups: dict[str, list[Cell]] = {}
        for label, row in self.rows.items():
            config = options.of_method(row.method, settings=settings, chapter=chapter, **row.settings)
            self.groups[label] = options.cells(label, config, all_folds=True)
        of_thesis = table is not None and not table.startswith(DISSERTATION)
        self.protocol = _protocol(config.num_folds, options.repeats, chapter) if of_thesis else ""
        baselines = [f"{row.label} with {row.baseline}" for row in self.rows.values() if row.baseline in self.rows]
        compared = [f"Compared as 'minus baseline', paired: {'; '.join(baselines)}."] if baselines else []
        self.notes = (*notes, *compared, *budget_notes(options))

    def cells_of(self, label: str, finished: FinishedCells) -> list[Cell]:
        """Return the cells of a row."""
        return self.groups[label]


def draw_rows(
    rows: Sequence[reports.TableRow], path: pathlib.Path, *, title: str, untrained: float | None = None
) -> None:
    """Draw MAP@R (fractions) of complete rows' single and concatenated models.

    A long table has single models alone, the best first.
    """
    groups: dict[str, dict[str, reports.Interval]] = {}
    for row in rows:
        for (size, metric), cell in row.cells.items():
            if metric == "MAP@R" and "minus" not in size and cell.bounds is not None:
                groups.setdefault(size, {})[row.method] = cell.bounds
    if len(rows) > _MOST_IN_ORDER:
        size, bars = next(iter(groups.items()))
        groups = {size: dict(sorted(bars.items(), key=lambda bar: -bar[1].estimate))}
    reports.interval_bars(groups, path, title=title, untrained=untrained)


def choose_rows(rows: Sequence[FairRow], losses: Sequence[str]) -> list[FairRow]:
    """Select rows of some losses: `c1` all of it, `c1+xbm` with the memory."""
    known = {row.label: _forms(parse_method(row.method)[0]) for row in rows}
    for loss in losses:
        check_choice("--loss", loss, list(dict.fromkeys(form for forms in known.values() for form in forms)))
    return [row for row in rows if not losses or set(known[row.label]) & set(losses)]


def _forms(loss: str) -> list[str]:
    """List a loss' names: `margin+distance+rho` is also `margin+distance` and `margin`."""
    parts = loss.split("+")
    return ["+".join(parts[: count + 1]) for count in range(len(parts))]


def _protocol(num_folds: int, repeats: int, chapter: int) -> str:
    """Describe each row's runs beside the thesis' (sections 3.3.2.1 and 5.3.4.1)."""
    of_thesis = trainings(THESIS_REPEATS[chapter])
    return (
        f"Each row: {num_folds} folds, {trainings(repeats)} each; thesis chapter {chapter}: 4 folds, {of_thesis} each."
    )


def budget_notes(options: StudyOptions) -> tuple[str, ...]:
    """Describe the reductions of a small budget."""
    return options.budget_notes("short runs, two folds" if options.budget == "smoke" else "short runs")
