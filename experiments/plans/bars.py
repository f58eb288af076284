"""Methods side by side on one split: differences, and bars of MAP@R."""

from __future__ import annotations

import pathlib
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from experiments import reports
from experiments.plans.study import FinishedCells, Study, StudyOptions
from experiments.reports.scores import Scores, figures_row, labels_of, scores_of_trainings
from experiments.reports.tables import figures_table
from experiments.rows.rows import Row
from experiments.settings.config import ExperimentConfig


class Bar(NamedTuple):
    """A method; its label is that of its rows."""

    label: str
    config: ExperimentConfig
    group: str  # of bars, such as a loss
    name: str  # in the group
    against: Mapping[str, str] = {}  # column of the table: label of the method that is subtracted
    held_against: str | None = None  # the one of its rows


class Bars(Study):
    """Methods with the same runs, in the order of running.

    Args:
        title, notes: as of `Study`.
        bars: every method.
        options: whose folds and repeats are trained.
        is_sorted: draw the best of the first group first, and the other groups in the same order.
        picture: end of the picture's name.
    """

    def __init__(
        self,
        title: str,
        bars: Sequence[Bar],
        options: StudyOptions,
        notes: Sequence[str] = (),
        *,
        is_sorted: bool = False,
        picture: str = "",
    ):
        self.title, self.notes = title, tuple(notes)
        self.keep, self._is_sorted, self._picture = self._named, is_sorted, picture
        self.bars = {bar.label: bar for bar in bars}
        self.groups = {bar.label: options.cells(bar.label, bar.config) for bar in bars}

    def _named(self, place: int, group: str, rows: list[Row], finished: FinishedCells) -> list[Row]:
        """Name a method's rows, and say what they are held against."""
        extras = {"place": place, "held against": self.bars[group].held_against}
        return [row.named(group, extras) for row in rows]

    def render(self, finished: FinishedCells, folder: pathlib.Path, name: str) -> str:
        """Write the table and the bars of finished runs."""
        study, path = self.recorded(finished), folder / f"{name}{self._picture}.png"
        scores = {label: scores_of_trainings(study, label) for label in labels_of(study)}
        rows = [figures_row(scores, label, self.bars[label].against) for label in scores]
        text = figures_table(rows, self.title, self.notes).write(folder, name)
        reports.interval_bars(self._estimates(scores), path, title=self.title)
        return f"{text}\nFigure: {path}"

    def _estimates(self, scores: Mapping[str, Scores]) -> dict[str, dict[str, reports.Interval]]:
        """Return MAP@R by group and name."""
        found: dict[str, dict[str, reports.Interval]] = {}
        for label, of_method in scores.items():
            found.setdefault(self.bars[label].group, {})[self.bars[label].name] = of_method.estimate("MAP@R")
        if not self._is_sorted:
            return found
        first = next(iter(found.values()))
        order = sorted(first, key=lambda name: -first[name].estimate)
        return {group: {name: of[name] for name in order if name in of} for group, of in found.items()}
