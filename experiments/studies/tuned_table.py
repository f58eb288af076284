"""Table of the fair protocol with equally many trials per method, judged by validation."""

from __future__ import annotations

import pathlib
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from experiments.plans.fair_table import FairRow, MethodsTable, budget_notes, choose_rows
from experiments.plans.study import (
    Cell,
    FinishedCells,
    RecordedMethod,
    StudyOptions,
    best_validation,
    finished_units,
    trainings,
    write_table,
)
from experiments.reports import PlainTable
from experiments.settings.build import parse_method


class TunedRow(NamedTuple):
    """Row and its trials.

    Attributes:
        row: of the table; its `settings` hold in every trial.
        trials: values of configuration fields, by field name, one mapping a trial; at least one trial.
    """

    row: FairRow
    trials: Sequence[Mapping[str, object]]


class TunedTable(MethodsTable):
    """Table whose rows have the settings of their best trial.

    A trial trains all folds. The mean of their validation MAP@R judges it; the first of a tie wins, and its runs are
    those of the row.

    Args:
        title: of the table.
        rows: each with its trials; `--loss` selects those of some losses.
        options: of the study.
        settings: configuration fields shared by all rows; flags override them.

    Raises:
        InvalidInput: a flag for a tuned field, a pooling given by hand, or a loss that no row has.
    """

    def __init__(
        self, title: str, rows: Sequence[TunedRow], options: StudyOptions, settings: Mapping[str, object]
    ) -> None:
        counts = sorted({len(tuned.trials) for tuned in rows})
        self.title, self.table, self.repeats = title, None, options.repeats
        self.rows = {row.label: row for row in choose_rows([tuned.row for tuned in rows], options.losses)}
        self._trials = {tuned.row.label: tuned.trials for tuned in rows if tuned.row.label in self.rows}
        self._cells = {
            label: [_cells_of_trial(row, trial, options, settings) for trial in self._trials[label]]
            for label, row in self.rows.items()
        }
        self.num_cells = sum(len(cells) for of_row in self._cells.values() for cells in of_row)
        num_folds = next(iter(self._cells.values()))[0][0].config.num_folds
        self.protocol = (
            f"Trials of a row: {' or '.join(map(str, counts))}, each on all folds; the best on validation classes "
            f"gives its settings. {num_folds} folds, {trainings(options.repeats)} each."
        )
        self.notes = (self.protocol, *budget_notes(options))

    def cells(self, finished: FinishedCells) -> list[Cell]:
        """Return each row's trials."""
        return [cell for of_row in self._cells.values() for cells in of_row for cell in cells]

    def cells_of(self, label: str, finished: FinishedCells) -> list[Cell]:
        """Return a row's cells with the chosen settings; none before all trials end."""
        chosen = self.chosen(label, finished)
        return [] if chosen is None else self._cells[label][chosen]

    def chosen(self, label: str, finished: FinishedCells) -> int | None:
        """Return the best validating trial of a row; None before all are finished."""
        values = self._validations(label, finished)
        known = [value for value in values if value is not None]
        return int(np.argmax(known)) if len(known) == len(values) else None

    def render(self, finished: FinishedCells, folder: pathlib.Path, name: str) -> str:
        """Write trials, the table of complete rows and its picture; summarize the rest."""
        tried = {label: self._tried(label, finished) for label in self.rows}
        write_table(table_of_trials(f"Trials: {self.title}", tried), folder, f"{name}_trials")
        text = f"Trials: {folder / name}_trials.md"
        if any(self.cells_of(label, finished) for label in self.rows):
            text = f"{super().render(finished, folder, name)}\n{text}"
        return text

    def recorded(self, finished: FinishedCells) -> list[RecordedMethod]:
        """Return the runs with the chosen settings, their labels and trials."""
        methods = []
        for label in self.rows:
            if cells := self.cells_of(label, finished):
                units = tuple(finished_units(cells, finished))
                methods.append(RecordedMethod(units, label, {"trials": self._tried(label, finished)}))
        return methods

    def _validations(self, label: str, finished: FinishedCells) -> list[float | None]:
        """Return each trial's mean best validation MAP@R, or None."""
        values: list[float | None] = []
        for cells in self._cells[label]:
            units = finished_units(cells, finished)
            values.append(float(np.mean(best_validation(units))) if len(units) == len(cells) else None)
        return values

    def _tried(self, label: str, finished: FinishedCells) -> list[dict]:
        """Return the finished trials of a row, in the format of recorded rows."""
        chosen, values = self.chosen(label, finished), self._validations(label, finished)
        return [
            {"settings": dict(trial), "validation": value, "chosen": place == chosen}
            for place, (trial, value) in enumerate(zip(self._trials[label], values))
            if value is not None
        ]


def _cells_of_trial(
    row: FairRow, trial: Mapping[str, object], options: StudyOptions, settings: Mapping[str, object]
) -> list[Cell]:
    """Return a row's runs with a trial's settings."""
    loss, method, pooling = parse_method(row.method)
    options = options.with_pooling(pooling)
    config = options.configuration(loss, method, settings=settings, **{**row.settings, **trial})
    return options.cells(f"{row.label} ({_in_words(trial)})", config, all_folds=True)


def table_of_trials(title: str, tried: Mapping[str, Sequence[Mapping]]) -> PlainTable:
    """Tabulate each row's trials and their validation.

    Args:
        title: of the table.
        tried: by label, in the table's order, trials with `settings` (by field name), `validation` (MAP@R, a fraction)
            and `chosen`.
    """
    lines = [
        [label, _in_words(trial["settings"]), f"{100 * trial['validation']:.2f}", "chosen" if trial["chosen"] else ""]
        for label, trials in tried.items()
        for trial in trials
    ]
    header = ["method", "settings", "validation MAP@R (%)", ""]
    return PlainTable(title, header, lines, ["Means over all folds, on their validation classes."])


def _in_words(trial: Mapping[str, object]) -> str:
    return ", ".join(f"{name} {value:g}" for name, value in trial.items())
