"""Table of the fair protocol with equally many trials per method, judged by validation."""

from __future__ import annotations

import pathlib
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from common.errors import InvalidInput
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
        trials: values of configuration fields, by field name, one mapping a trial; of several fields in all, at least
            one trial.
        last_trial: maps the others' validation MAP@R, in order, to the last trial's configuration fields; None: there
            is no such trial.
    """

    row: FairRow
    trials: Sequence[Mapping[str, object]]
    last_trial: Callable[[Sequence[float]], Mapping[str, object]] | None = None

    @property
    def num_trials(self) -> int:
        """The number of trials of the row."""
        return len(self.trials) + (self.last_trial is not None)


class TunedTable(MethodsTable):
    """Table whose rows have the settings of their best trial.

    Trials are judged by validation MAP@R; the first of a tie wins, and its runs are runs of the row.

    Args:
        title: of the table.
        table: the thesis' number.
        rows: each with the same number of trials; `--loss` selects those of some losses.
        options: of the study.
        settings: configuration fields shared by all rows; flags override them.
        notes: footnotes.
        tried_on_all_folds: a trial trains all folds and is judged by their mean; otherwise the first fold judges.

    Raises:
        InvalidInput: rows with unequal numbers of trials, a flag for a tuned field, a pooling given by hand, or a loss
            that no row has.
    """

    def __init__(
        self,
        title: str,
        table: str | None,
        rows: Sequence[TunedRow],
        options: StudyOptions,
        settings: Mapping[str, object],
        notes: Sequence[str] = (),
        tried_on_all_folds: bool = False,
    ):
        counts = {tuned.num_trials for tuned in rows}
        if len(counts) != 1:
            raise InvalidInput(f"Rows are tuned alike: received {sorted(counts)} trials, expected one number.")
        self.title, self.table, self.repeats = title, table, options.repeats
        self.rows = {row.label: row for row in choose_rows([tuned.row for tuned in rows], options.losses)}
        self._tuned = {tuned.row.label: tuned for tuned in rows if tuned.row.label in self.rows}
        self._options, self._settings, self._all_folds = options, settings, tried_on_all_folds
        self._cells: dict[str, list[Cell]] = {}
        (num_trials,) = counts
        # All of them now, so that what cannot be trained is refused before anything is.
        first = [self._candidate(tuned.row, trial) for tuned in self._tuned.values() for trial in tuned.trials][0]
        num_tried = len(first) if tried_on_all_folds else 1
        self.num_cells = len(self.rows) * ((num_trials - 1) * num_tried + len(first))
        where = "all folds" if tried_on_all_folds else "one split"
        self.protocol = (
            f"Each row: {trainings(num_trials)} on {where}, of which the best on validation classes gives its "
            f"settings; {first[0].config.num_folds} folds, {trainings(options.repeats)} each."
        )
        self.notes = (self.protocol, *notes, *budget_notes(options))

    def cells(self, finished: FinishedCells) -> list[Cell]:
        """Return each row's trials and, once all are finished, the rest of its runs."""
        known = []
        for label, tuned in self._tuned.items():
            tried = [cell for trial in self._trials(label, finished) for cell in self._tried_cells(tuned.row, trial)]
            known += [*tried, *(cell for cell in self.cells_of(label, finished) if cell not in tried)]
        return known

    def cells_of(self, label: str, finished: FinishedCells) -> list[Cell]:
        """Return a row's cells with the chosen settings; none before all trials end."""
        chosen = self.chosen(label, finished)
        if chosen is None:
            return []
        return self._candidate(self.rows[label], self._trials(label, finished)[chosen])

    def chosen(self, label: str, finished: FinishedCells) -> int | None:
        """Return the best validating trial of a row; None before all are finished."""
        values = self._validations(label, self._trials(label, finished), finished)
        known = [value for value in values if value is not None]
        return best_place(known) if len(known) == len(values) else None

    def render(self, finished: FinishedCells, folder: pathlib.Path, name: str) -> str:
        """Write trials, the table of complete rows and its picture; summarize the rest."""
        tried = {label: self._tried(label, finished) for label in self.rows}
        judges = "all folds" if self._all_folds else "the first fold"
        write_table(table_of_trials(f"Trials: {self.title}", tried, judges), folder, f"{name}_trials")
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

    def _trials(self, label: str, finished: FinishedCells) -> list[Mapping[str, object]]:
        """Return a row's known trials; the last one may depend on the others."""
        tuned = self._tuned[label]
        trials = list(tuned.trials)
        if tuned.last_trial is not None:
            known = [value for value in self._validations(label, trials, finished) if value is not None]
            trials += [tuned.last_trial(known)] if len(known) == len(trials) else []
        return trials

    def _validations(
        self, label: str, trials: Sequence[Mapping[str, object]], finished: FinishedCells
    ) -> list[float | None]:
        """Return each trial's mean best validation MAP@R, or None."""
        values: list[float | None] = []
        for trial in trials:
            cells = self._tried_cells(self.rows[label], trial)
            units = finished_units(cells, finished)
            values.append(float(np.mean(best_validation(units))) if len(units) == len(cells) else None)
        return values

    def _tried_cells(self, row: FairRow, trial: Mapping[str, object]) -> list[Cell]:
        """Return the runs that judge a trial."""
        return self._candidate(row, trial)[: None if self._all_folds else 1]

    def _candidate(self, row: FairRow, trial: Mapping[str, object]) -> list[Cell]:
        """Return a row's runs with a trial's settings; the first one is the trial."""
        name = f"{row.label} ({_in_words(trial)})"
        if name not in self._cells:
            loss, method, pooling = parse_method(row.method)
            options = self._options.with_pooling(pooling)
            config = options.configuration(loss, method, settings=self._settings, **{**row.settings, **trial})
            self._cells[name] = options.cells(name, config, all_folds=True)
        return self._cells[name]

    def _tried(self, label: str, finished: FinishedCells) -> list[dict]:
        """Return the finished trials of a row, in the format of recorded rows."""
        chosen = self.chosen(label, finished)
        trials = self._trials(label, finished)
        return [
            {"settings": dict(trial), "validation": value, "chosen": place == chosen}
            for place, (trial, value) in enumerate(zip(trials, self._validations(label, trials, finished)))
            if value is not None
        ]


def best_place(values: Sequence[float]) -> int:
    """Return the place of the largest value, the first of a tie."""
    return max(range(len(values)), key=values.__getitem__)


def table_of_trials(title: str, tried: Mapping[str, Sequence[Mapping]], judges: str = "the first fold") -> PlainTable:
    """Tabulate each row's trials and their validation.

    Args:
        title: of the table.
        tried: by label, in the table's order, trials with `settings` (by field name), `validation` (MAP@R, a fraction)
            and `chosen`.
        judges: the folds whose validation classes judge.
    """
    lines = [
        [label, _in_words(trial["settings"]), f"{100 * trial['validation']:.2f}", "chosen" if trial["chosen"] else ""]
        for label, trials in tried.items()
        for trial in trials
    ]
    header = ["method", "settings", "validation MAP@R (%)", ""]
    notes = (f"One run each, on the validation classes of {judges}.",)
    return PlainTable(title, header, lines, notes)


def _in_words(trial: Mapping[str, object]) -> str:
    return ", ".join(f"{name} {value:g}" for name, value in trial.items())
