"""Table of the fair protocol with equally many trials per method, judged by validation."""

from __future__ import annotations

import pathlib
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from common.errors import InvalidInput
from experiments.plans.fair_table import FairRow, MethodsTable, budget_notes, choose_rows
from experiments.plans.study import Cell, FinishedCells, StudyOptions, best_validation, finished_rows, trainings
from experiments.reports import Table
from experiments.reports.scores import complete_repeats
from experiments.rows.rows import TRAINING, Row
from experiments.rows.store import StudyRows


class TunedRow(NamedTuple):
    """Row and its trials."""

    row: FairRow  # its `settings` hold in every trial
    # values of configuration fields, by name, one mapping a trial; at least one trial
    trials: Sequence[Mapping[str, object]]
    chosen_as: str = ""  # label of the row whose choice among the same trials this one takes; empty: its own


class RecordedTrial(NamedTuple):
    """Recorded trials of a row, one of them chosen."""

    tried: Sequence[Mapping]  # as `table_of_trials` takes them
    source: str  # of the choice: study, data set, network, hashes of data and configuration

    @property
    def settings(self) -> Mapping[str, object]:
        """The settings of the chosen trial."""
        return next(trial["settings"] for trial in self.tried if trial["chosen"])


class TunedTable(MethodsTable):
    """Table whose rows have the settings of their best trial.

    A trial trains all folds. The mean of their validation MAP@R judges it; the first of a tie wins, and its runs are
    those of the row. Recorded trials of another data set or network may give the settings instead, by label.
    """

    def __init__(
        self,
        title: str,
        rows: Sequence[TunedRow],
        options: StudyOptions,
        settings: Mapping[str, object],
        recorded: Mapping[str, RecordedTrial] | None = None,
    ) -> None:
        counts = sorted({len(tuned.trials) for tuned in rows})
        self.title, self.table, self.repeats = title, None, options.repeats
        self.rows = {row.label: row for row in choose_rows([tuned.row for tuned in rows], options.losses)}
        self._trials = {tuned.row.label: tuned.trials for tuned in rows if tuned.row.label in self.rows}
        follows = {tuned.row.label: tuned.chosen_as for tuned in rows} if recorded is None else {}
        self._follows = {label: follows[label] for label in self.rows if follows.get(label) in self.rows}
        self._recorded = recorded
        if recorded is not None:
            self._trials = {label: [recorded[label].settings] for label in self.rows}
        self._cells = {
            label: [_cells_of_trial(row, trial, options, settings) for trial in self._trials[label]]
            for label, row in self.rows.items()
        }
        trained = {label: of_row[:1] if label in self._follows else of_row for label, of_row in self._cells.items()}
        self.num_cells = sum(len(cells) for of_row in trained.values() for cells in of_row)
        num_folds = next(iter(self._cells.values()))[0][0].config.num_folds
        chosen = f"Trials of a row: {' or '.join(map(str, counts))}, each on all folds; the best on validation classes"
        if recorded is not None:
            chosen = "No trials here: the best recorded trial of each row"
        self.protocol = f"{chosen} gives its settings. {num_folds} folds, {trainings(options.repeats)} each."
        self.notes = (self.protocol, *budget_notes(options))

    def cells(self, finished: FinishedCells) -> list[Cell]:
        """Return each row's trials.

        Of a row that follows another, that is the chosen one, once it is known.
        """
        own = [
            cell for label in self.rows if label not in self._follows for trial in self._cells[label] for cell in trial
        ]
        return own + [cell for label in self._follows for cell in self.cells_of(label, finished)]

    def cells_of(self, label: str, finished: FinishedCells) -> list[Cell]:
        """Return a row's cells with the chosen settings; none before all trials end."""
        chosen = self.chosen(label, finished)
        return [] if chosen is None else self._cells[label][chosen]

    def chosen(self, label: str, finished: FinishedCells) -> int | None:
        """Return the best validating trial; None before all are finished.

        It is that of the row that this one follows, if any.
        """
        label = self._follows.get(label, label)
        values = self._validations(label, finished)
        known = [value for value in values if value is not None]
        return int(np.argmax(known)) if len(known) == len(values) else None

    def render(self, finished: FinishedCells, folder: pathlib.Path, name: str) -> str:
        """Write trials, the table of complete rows and its picture; summarize the rest."""
        tried = {label: self._tried(label, finished) for label in self.rows}
        sources = {label: self._recorded[label].source for label in self.rows} if self._recorded else {}
        table_of_trials(f"Trials: {self.title}", tried, sources).write(folder, f"{name}_trials")
        text = f"Trials: {folder / name}_trials.md"
        if any(self.cells_of(label, finished) for label in self.rows):
            text = f"{super().render(finished, folder, name)}\n{text}"
        return text

    def recorded(self, finished: FinishedCells) -> StudyRows:
        """Return the runs with the chosen settings, their labels and trials."""
        rows = list[Row]()
        for label in self.rows:
            extras: dict[str, object] = {"trials": self._tried(label, finished)}
            if self._recorded is not None:
                extras["trials_from"] = self._recorded[label].source
            runs = finished_rows(self.cells_of(label, finished), finished)
            rows += [row.scored().named(label, extras) for row in runs]
        return StudyRows.of_rows(rows)

    def _validations(self, label: str, finished: FinishedCells) -> list[float | None]:
        """Return each trial's mean best validation MAP@R, or None."""
        values: list[float | None] = []
        for cells in self._cells[label]:
            runs = finished_rows(cells, finished)
            values.append(float(np.mean(best_validation(runs))) if len(runs) == len(cells) else None)
        return values

    def _tried(self, label: str, finished: FinishedCells) -> list[dict]:
        """Return a row's trials in the format of recorded rows."""
        if self._recorded is not None:
            return [dict(trial) for trial in self._recorded[label].tried]
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
    config = options.of_method(row.method, settings=settings, **{**row.settings, **trial})
    return options.cells(f"{row.label} ({_in_words(trial)})", config, all_folds=True)


def recorded_trials(
    study: StudyRows, rows: Sequence[TunedRow], dataset: str, backbone: str, command: str
) -> dict[str, RecordedTrial]:
    """Read the planned trials of rows, by label, from a recorded tuned table.

    Messages name the command that records them.
    """
    found, missing = {}, []
    for tuned in rows:
        label = tuned.chosen_as or tuned.row.label
        of_label = (row for row in study.rows if row["kind"] == TRAINING and row["label"] == label)
        row = next((row for row in of_label if row["dataset"] == dataset), None)
        tried = (row.get("extras") or {}).get("trials", []) if row else []
        is_planned = [trial["settings"] for trial in tried] == [dict(trial) for trial in tuned.trials]
        if row and row["configuration"].get("backbone") == backbone and is_planned and complete_repeats(study, label):
            source = f"{study.name}: {dataset}, {backbone}, data {row['data']}, configuration {row['config_hash']}"
            found[tuned.row.label] = RecordedTrial(tried, source)
        else:
            missing.append(label)
    if missing:
        raise InvalidInput(
            f"{study.folder} cannot give settings: received no recorded trials of {'; '.join(missing)}, expected the "
            f"planned trials of each method on {dataset} with {backbone}. Record them: {command}. Or choose recorded "
            "methods by --loss."
        )
    return found


def table_of_trials(
    title: str, tried: Mapping[str, Sequence[Mapping]], sources: Mapping[str, str] | None = None
) -> Table:
    """Tabulate each row's trials and their validation.

    Args:
        tried: by label, in the table's order, trials with `settings` (by field name), `validation` (MAP@R, a fraction)
            and `chosen`.
        sources: by label, where recorded trials were chosen; none: here.
    """
    lines = [
        [label, _in_words(trial["settings"]), f"{100 * trial['validation']:.2f}", "chosen" if trial["chosen"] else ""]
        for label, trials in tried.items()
        for trial in trials
    ]
    header = ["method", "settings", "validation MAP@R (%)", ""]
    notes = ["Means over all folds, on their validation classes."]
    notes += [f"Chosen elsewhere, {label}: {source}." for label, source in (sources or {}).items()]
    return Table(title, header, lines, notes)


def _in_words(trial: Mapping[str, object]) -> str:
    return ", ".join(f"{name} {value:g}" for name, value in trial.items())
