"""A table of the fair protocol whose methods are tuned alike: equally many trials, judged on validation classes."""

from __future__ import annotations

import pathlib
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from common.errors import InvalidInput
from experiments.reports import PlainTable
from experiments.settings.build import parse_method
from experiments.studies.fair_table import FairRow, budget_notes, choose_rows, write_fair_table
from experiments.studies.study import (
    Cell,
    FinishedCells,
    RecordedMethod,
    Study,
    StudyOptions,
    best_validation,
    finished_units,
    trainings,
    write_table,
)


class TunedRow(NamedTuple):
    """A row and what is tried for it.

    Attributes:
        row: of the table; its `settings` hold in every trial.
        trials: values of configuration fields, by field name, one mapping a trial; of several fields in all, at least
            one trial.
    """

    row: FairRow
    trials: Sequence[Mapping[str, object]]


class TunedTable(Study):
    """Each row's settings are the best of its trials on the classes that validate in the first fold, by MAP@R.

    Test classes have no part in it. The first trial of a tie is taken. The training that won is the row's first.

    Args:
        title: of the table.
        table: the thesis' number.
        rows: each with the same number of trials; `--loss` keeps those of some losses.
        options: of the study.
        settings: values of configuration fields that all rows share; flags win over them.
        notes: footnotes.

    Raises:
        InvalidInput: rows with unequal numbers of trials, a flag for what is tuned, a pooling given by hand, or a loss
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
    ):
        counts = {len(tuned.trials) for tuned in rows}
        if len(counts) != 1:
            raise InvalidInput(f"Rows are tuned alike: received {sorted(counts)} trials, expected one number.")
        self.title, self.table, self.repeats = title, table, options.repeats
        self._trials_of = {tuned.row.label: tuned.trials for tuned in rows}
        self.rows = {row.label: row for row in choose_rows([tuned.row for tuned in rows], options.losses)}
        self._candidates = {
            label: [_cells_of(label, row, trial, options, settings) for trial in self._trials_of[label]]
            for label, row in self.rows.items()
        }
        (num_trials,) = counts
        first = next(iter(self._candidates.values()))[0]
        self.num_cells = len(self.rows) * (num_trials - 1 + len(first))
        self.protocol = (
            f"Each row: {trainings(num_trials)} on one split, of which the best on validation classes gives its "
            f"settings; then {first[0].config.num_folds} folds, {trainings(options.repeats)} each."
        )
        self.notes = (self.protocol, *notes, *budget_notes(options))

    def cells(self, finished: FinishedCells) -> list[Cell]:
        """Row by row its trials and, once they are all finished, the rest of its runs."""
        known = []
        for label, candidates in self._candidates.items():
            chosen = self.chosen(label, finished)
            known += [cells[0] for cells in candidates] + (candidates[chosen][1:] if chosen is not None else [])
        return known

    def cells_of(self, label: str, finished: FinishedCells) -> list[Cell]:
        """The cells of a row with the settings that were chosen; none before all trials are finished."""
        chosen = self.chosen(label, finished)
        return [] if chosen is None else self._candidates[label][chosen]

    def chosen(self, label: str, finished: FinishedCells) -> int | None:
        """Which trial of a row validates best; None before all of them are finished."""
        values = self._validations(label, finished)
        return None if None in values else max(range(len(values)), key=lambda place: (values[place], -place))

    def render(self, finished: FinishedCells, folder: pathlib.Path, name: str) -> str:
        """Writes the trials, the table of complete rows and their picture, and says what the others have reached."""
        tried = {label: self._tried(label, finished) for label in self.rows}
        text = write_table(table_of_trials(f"Trials: {self.title}", tried), folder, f"{name}_trials")
        cells = {}
        for label, candidates in self._candidates.items():
            chosen = self.chosen(label, finished)
            if chosen is not None:
                cells[label] = candidates[chosen]
        if cells:
            rows = {label: self.rows[label] for label in cells}
            text += "\n" + write_fair_table(
                rows,
                cells,
                finished,
                folder,
                name,
                title=self.title,
                table=self.table,
                repeats=self.repeats,
                notes=self.notes,
            )
        return text

    def recorded(self, finished: FinishedCells) -> list[RecordedMethod]:
        """The runs with the settings that were chosen, each with its label and what was tried for it."""
        methods = []
        for label, candidates in self._candidates.items():
            chosen = self.chosen(label, finished)
            if chosen is not None:
                units = tuple(finished_units(candidates[chosen], finished))
                methods.append(RecordedMethod(units, label, {"trials": self._tried(label, finished)}))
        return methods

    def _validations(self, label: str, finished: FinishedCells) -> list[float | None]:
        """Best validation MAP@R of each trial of a row, or None."""
        first = [finished_units(cells[:1], finished) for cells in self._candidates[label]]
        return [best_validation(units)[0] if units else None for units in first]

    def _tried(self, label: str, finished: FinishedCells) -> list[dict]:
        """The finished trials of a row, as rows of a recorded study keep them."""
        chosen = self.chosen(label, finished)
        return [
            {"settings": dict(trial), "validation": value, "chosen": place == chosen}
            for place, (trial, value) in enumerate(zip(self._trials_of[label], self._validations(label, finished)))
            if value is not None
        ]


def table_of_trials(title: str, tried: Mapping[str, Sequence[Mapping]]) -> PlainTable:
    """What was tried for each row, and how it validates.

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
    notes = ("One run each, on the validation classes of the first fold.",)
    return PlainTable(title, header, lines, notes)


def _cells_of(label: str, row: FairRow, trial: Mapping, options: StudyOptions, settings: Mapping) -> list[Cell]:
    """The runs that a row has with the settings of a trial; the first one is the trial."""
    loss, method, pooling = parse_method(row.method)
    chosen_pooling = options.with_pooling(pooling)
    config = chosen_pooling.configuration(loss, method, settings=settings, **{**row.settings, **trial})
    return options.cells(f"{label} ({_in_words(trial)})", config, all_folds=True)


def _in_words(trial: Mapping[str, object]) -> str:
    return ", ".join(f"{name} {value:g}" for name, value in trial.items())
