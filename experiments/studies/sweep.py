"""A study of one hyper-parameter on the x axis, and one line for each value of another."""

from __future__ import annotations

import pathlib
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from experiments.config import ExperimentConfig
from experiments.reports import PlainTable, UnitRun
from experiments.reports.sweeps import SweepValue, sweep_lines
from experiments.reports.tables import CUT_NOTE, MARKS, kind_notes
from experiments.split_study import SplitScores
from experiments.studies.study import (
    Cell,
    FinishedCells,
    Study,
    StudyOptions,
    best_validation,
    finished_units,
    write_table,
)

_INTERVAL = "95 % interval, "


@dataclass(frozen=True)
class SweepPoint:
    """One configuration of a sweep: the line that it is on, its place on the x axis, and the configuration."""

    series: str
    x: float
    config: ExperimentConfig


@dataclass(frozen=True)
class SweepAxes:
    """What the axes show.

    Attributes:
        x_label: the hyper-parameter, in words.
        held_out: `"validation"` (the best MAP@R on the held-out training classes of one split; a bar is the range over
            repeats) or `"test"` (MAP@R on the test classes, all folds; a bar is the 95 % interval).
        logarithmic: whether x doubles from point to point.
    """

    x_label: str
    held_out: str
    logarithmic: bool = False


class Sweep(Study):
    """Points on lines.

    Args:
        title: of the study.
        points: in the order of running.
        options: say which split and how many repeats there are.
        axes: what is drawn.
        notes: footnotes.
        protocol: see `Study`.
    """

    def __init__(
        self,
        title: str,
        points: Sequence[SweepPoint],
        options: StudyOptions,
        axes: SweepAxes,
        notes: Sequence[str] = (),
        protocol: str = "",
    ):
        self.title, self.axes, self.notes, self.protocol = title, axes, tuple(notes), protocol
        one_split = axes.held_out == "validation"
        self._cells = {
            point: options.cells(f"{point.series}, {axes.x_label} {point.x:g}", point.config, one_split=one_split)
            for point in points
        }
        self.num_cells = sum(map(len, self._cells.values()))

    def cells(self, finished: FinishedCells) -> list[Cell]:
        """All cells, whatever is finished."""
        del finished
        return [cell for cells in self._cells.values() for cell in cells]

    def render(self, finished: FinishedCells, folder: pathlib.Path, name: str) -> str:
        """Writes the table and the picture of what is finished."""
        series: dict[str, list[SweepValue]] = {}
        lines = []
        for point, cells in self._cells.items():
            units = finished_units(cells, finished)
            if not units:
                continue
            value = self._value(point.x, units)
            series.setdefault(point.series, []).append(value)
            mark = MARKS.get(value.kind.removeprefix(_INTERVAL), "")
            bounds = (
                "-"
                if value.low is None or value.high is None
                else f"[{100 * value.low:.2f}, {100 * value.high:.2f}]{mark}"
            )
            lines.append([point.series, f"{point.x:g}", f"{100 * value.value:.2f}", bounds, f"{len(units)}"])
        spread = "range over trainings" if self.axes.held_out == "validation" else "95 % interval"
        metric = f"{self.axes.held_out} MAP@R (%)"
        header = ["method", self.axes.x_label, metric, spread, "trainings"]
        values = [value for of_series in series.values() for value in of_series]
        is_cut = self.axes.held_out == "test" and any(value.low == 0 or value.high == 1 for value in values)
        kinds = {value.kind.removeprefix(_INTERVAL) for value in values}
        notes = [*kind_notes(kinds), *self.notes, *([CUT_NOTE] if is_cut else [])]
        text = write_table(PlainTable(self.title, header, lines, notes), folder, name)
        path = folder / f"{name}.png"
        labels = {"x_label": self.axes.x_label, "y_label": metric, "title": self.title}
        sweep_lines(series, path, logarithmic=self.axes.logarithmic, **labels)
        return f"{text}Figure: {path}"

    def _value(self, x: float, units: list[UnitRun]) -> SweepValue:
        if self.axes.held_out == "test":
            interval = SplitScores(units).estimate("MAP@R")
            return SweepValue(x, interval.estimate, *interval.ends(), _INTERVAL + interval.kind)
        values = best_validation(units)
        mean = float(np.mean(values))
        return (
            SweepValue(x, mean, min(values), max(values), "range of trainings")
            if len(values) > 1
            else SweepValue(x, mean)
        )
