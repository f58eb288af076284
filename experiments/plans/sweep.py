"""Study of one hyper-parameter (x axis), with a line for each value of another."""

from __future__ import annotations

import dataclasses
import itertools
import pathlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from common.errors import InvalidInput
from common.retrieval.metrics import TABLE_METRICS
from experiments.plans.study import FinishedCells, Study, StudyOptions
from experiments.reports import Table
from experiments.reports.plots import SweepValue, sweep_lines
from experiments.reports.scores import Scores, labels_of, scores_of_trainings
from experiments.reports.tables import CUT_NOTE, bracketed, kind_notes
from experiments.reports.training_effect import means_without_training
from experiments.rows.rows import CLOSED_FORM, TRAINING, UNTRAINED, Row
from experiments.rows.store import StudyRows
from experiments.settings.config import ExperimentConfig

SWEEP = "sweep"  # of a row's extras: the point's place and axes
INTERVAL = "95 % interval, "


Settings = Mapping[str, Any]


class SweepPoint(NamedTuple):
    """Configuration of a sweep."""

    series: str  # its line
    x: float | None  # None: the same at each place, a horizontal line
    config: ExperimentConfig
    baseline: str | None = None  # the line that is subtracted from this one, at the same place


@dataclasses.dataclass(frozen=True)
class SweepAxes:
    """Labels and scales of a sweep's axes.

    "validation" is the best MAP@R on the held-out training classes of one split; a bar is the range over repeats.
    "test" is MAP@R on the test classes, all folds; a bar is the 95 % interval.
    """

    x_label: str
    held_out: str  # `validation` or `test`
    logarithmic: bool = False  # x doubles from point to point


class Line(NamedTuple):
    """Method along the axis of a sweep."""

    change: str = ""  # of the loss: `+xbm` or `+ccp`
    pooling: str | None = None  # None: that of the flags
    settings: Callable[[Any], Settings] = lambda x: {}  # by the place on the axis
    name: str = ""  # distinguishes lines of one method
    values: Sequence[float] | None = None  # places that it has; none of the sweep's: horizontal; None: all
    is_baseline: bool = False  # subtracted from the other lines

    def series(self, loss: str) -> str:
        """Return the line's name with a loss."""
        pooling = "" if self.pooling in (None, "gap") else f"+{self.pooling}"
        return f"{loss}{self.change}{pooling}" + f", {self.name}" * bool(self.name)

    def configuration(self, options: StudyOptions, loss: str, settings: Settings, varied: Settings) -> ExperimentConfig:
        """Return the method at a place, whose values are `varied`."""
        chosen = options if self.pooling is None else options.with_pooling(self.pooling)
        method = "ccp" if self.change == "+ccp" else "plain"
        return chosen.configuration(loss + self.change.removesuffix("+ccp"), method, settings=settings, **varied)


class Sweep(Study):
    """Sweep of a hyper-parameter: points on lines, in the order of running.

    Args:
        title, notes, protocol: as of `Study`.
        options: of the command.
        axes: labels and scale.
        values: places on the x axis.
        lines: the methods.
        losses: of each line, unless `--loss` names others.
        settings: values of all configurations, below the flags.
        varied: values of all lines by their place, above the flags.
        places_first: train all lines at one place before the next place.
    """

    def __init__(
        self,
        title: str,
        options: StudyOptions,
        axes: SweepAxes,
        values: Sequence[float],
        lines: Sequence[Line],
        losses: Sequence[str],
        settings: Settings,
        notes: Sequence[str] = (),
        protocol: str = "",
        *,
        varied: Callable[[Any], Settings] = lambda x: {},
        places_first: bool = False,
    ):
        pictures = {"": draw_recorded_sweep}
        super().__init__(title, {}, sweep, pictures, tuple(notes), self._named, protocol)
        self.axes, self.groups = axes, {}
        places: list[tuple[Line, float | None]] = []
        for line in lines:
            places += [(line, x) for x in values if line.values is None or x in line.values] or [(line, None)]
        if places_first:
            places.sort(key=lambda place: values.index(place[1]))
        for loss, (line, x) in itertools.product(options.losses or losses, places):
            place = 0 if x is None else x
            config = line.configuration(options, loss, settings, {**varied(place), **line.settings(place)})
            baseline = next((of.series(loss) for of in lines if of.is_baseline and not line.is_baseline), None)
            point = SweepPoint(line.series(loss), x, config, baseline)
            label = self._label(point.series, x)
            self.groups[point] = options.cells(label, config, one_split=axes.held_out == "validation")

    def _label(self, series: str, x: float | None) -> str:
        return series if x is None else f"{series}, {self.axes.x_label} {x:g}"

    def _named(self, place: int, group: SweepPoint, rows: list[Row], finished: FinishedCells) -> list[Row]:
        """Name a point's rows, with its place on the axes."""
        extras = {"place": place, "series": group.series, "x": group.x, **dataclasses.asdict(self.axes)}
        for point in self.groups:
            if point.series == group.baseline and point.x in (group.x, None):
                extras["baseline"] = self._label(point.series, point.x)
        return [row.named(self._label(group.series, group.x), {SWEEP: extras}) for row in rows]


class MeasuredPoint(NamedTuple):
    """Point of a sweep."""

    series: str
    value: SweepValue  # MAP@R
    num_trainings: int
    precision: float | None  # test P@1; None in validation
    effect: SweepValue | None = None  # test MAP@R minus that of its baseline; None without the same runs of one
    from_control: SweepValue | None = None  # the same, minus the control


def sweep_value(x: float | None, validations: Sequence[float], scores: Scores | None) -> SweepValue:
    """Return MAP@R with the range of validations, or the test scores' interval."""
    if scores is not None:
        interval = scores.estimate("MAP@R")
        return SweepValue(x, interval.estimate, *interval.ends(), INTERVAL + interval.kind)
    mean = float(np.mean(validations))
    if len(validations) == 1:
        return SweepValue(x, mean)
    return SweepValue(x, mean, min(validations), max(validations), "range of runs")


def sweep(study: StudyRows, title: str = "", notes: Sequence[str] = ()) -> Table:
    """Tabulate the points of a recorded sweep, such as figure 3.8, one line each.

    Test figures without training come first: once, or at each place if they differ by .05 points or more. A baseline
    with several places has a control: itself at the largest one, such as a larger batch or longer training.
    """
    axes, points = recorded_points(study)
    is_test, runs = axes.held_out == "test", {point.num_trainings for point in points.values()}
    effects = {
        "minus baseline": [point.effect for point in points.values()],
        f"minus {control_of(study)}": [point.from_control for point in points.values()],
    }
    effects = {name: found for name, found in effects.items() if any(found)}
    has_counts = len(runs) > 1
    others = ["-"] * (len(effects) + has_counts)
    lines = [[*line, *others] for line in (_without_training(study) if is_test else [])]
    for point, *differences in zip(points.values(), *effects.values()):
        figures = [] if point.precision is None else [f"{100 * point.precision:.2f}"]
        figures.append(f"{100 * point.value.value:.2f} {_bounds(point.value)}".rstrip())
        texts = [f"{100 * of.value:+.2f} {_bounds(of)}" if of else "-" for of in differences]
        lines.append([point.series, _place(point.value.x), *figures, *texts, *[f"{point.num_trainings}"] * has_counts])
    metrics = ["test P@1 (%)", "test MAP@R (%)"] if is_test else ["validation MAP@R (%)"]
    header = ["method", axes.x_label, *metrics, *effects, *["runs"] * has_counts]
    bracket = f"In brackets: {'95 % interval' if is_test else 'range over runs'}."
    notes = [bracket + f" Runs of each point: {min(runs)}." * (not has_counts), *notes]
    if is_test and any(point.value.low == 0 or point.value.high == 1 for point in points.values()):
        notes.append(CUT_NOTE)
    kinds = {point.value.kind.removeprefix(INTERVAL) for point in points.values()}
    return Table(title, header, lines, [*kind_notes(kinds), *notes], keys=2)


def _without_training(study: StudyRows) -> list[list[str]]:
    by_place: dict[float | None, list[Row]] = {}
    for row in study.rows:
        if row["kind"] == TRAINING and row[UNTRAINED]:
            by_place.setdefault(row["extras"][SWEEP]["x"], []).append(row)
    together, *found = (
        means_without_training([row[UNTRAINED] for row in rows], [row["extras"].get(CLOSED_FORM, {}) for row in rows])
        for rows in (sum(by_place.values(), []), *by_place.values())
    )
    are_equal = all(abs(one[name]["MAP@R"] - together[name]["MAP@R"]) < 5e-4 for one in found for name in one)
    places = dict(zip(by_place, found, strict=True))
    if are_equal:
        places = {None: together}
    return [
        [
            name,
            _place(x),
            *(f"{100 * places[x][name][metric]:.2f}" if metric in places[x][name] else "-" for metric in TABLE_METRICS),
        ]
        for name in together
        for x in sorted(places, key=lambda x: (x is not None, x or 0))
        if name in places[x]
    ]


def _place(x: float | None) -> str:
    return "-" if x is None else f"{x:g}"


def _bounds(value: SweepValue) -> str:
    if value.low is None or value.high is None:
        return ""
    return bracketed(value.low, value.high, value.kind.removeprefix(INTERVAL))


def draw_recorded_sweep(study: StudyRows, path: pathlib.Path, title: str) -> None:
    """Draw the lines of a recorded sweep, and its effects in a panel below."""
    axes, points = recorded_points(study)
    series: dict[str, list[SweepValue]] = {}
    effects: dict[str, list[SweepValue]] = {}
    for point in points.values():
        series.setdefault(point.series, []).append(point.value)
        if point.effect is not None:
            effects.setdefault(point.series, []).append(point.effect)
    labels = {"x_label": axes.x_label, "y_label": f"{axes.held_out} MAP@R (%)", "title": title}
    sweep_lines(series, path, effects=effects, logarithmic=axes.logarithmic, **labels)


def recorded_points(study: StudyRows) -> tuple[SweepAxes, dict[str, MeasuredPoint]]:
    """Return the axes, and the points by label, of the one recorded sweep."""
    rows = [row for row in study.rows if row["kind"] == TRAINING]
    sweeps = {row["label"]: row["extras"][SWEEP] for row in rows if SWEEP in row["extras"]}
    found = [row["extras"][SWEEP] for row in rows if SWEEP in row["extras"]]
    axes = {tuple(of[name] for name in ("x_label", "held_out", "logarithmic")) for of in found}
    if len(axes) != 1 or set(sweeps) != set(labels_of(study)):
        raise InvalidInput(
            f"{study.folder} is no sweep: expected rows of one figure over one hyper-parameter, such as 3.8."
        )
    (chosen,) = (SweepAxes(*of) for of in axes)
    control = control_of(study)
    points = {}
    for label in sorted(sweeps, key=lambda label: (sweeps[label]["place"], sweeps[label]["x"] or 0)):
        scores, x = scores_of_trainings(study, label), sweeps[label]["x"]
        validations = [row["validation"]["MAP@R"] for row in scores.rows]
        is_test = chosen.held_out == "test"
        value = sweep_value(x, validations, scores if is_test else None)
        precision = scores.estimate("P@1").estimate if is_test else None
        references = [sweeps[label].get("baseline"), control if control != label else None]
        effects = [_effect(study, scores, of if of in sweeps else None) for of in references]
        points[label] = MeasuredPoint(sweeps[label]["series"], value, len(scores.rows), precision, *effects)
    return chosen, points


def control_of(study: StudyRows) -> str | None:
    """Return the label of the baseline at its largest place.

    None if it has one place, or other images at each.
    """
    rows = [row for row in study.rows if row["kind"] == TRAINING]
    sweeps = {row["label"]: row["extras"][SWEEP] for row in rows}
    lines = {sweeps[of["baseline"]]["series"] for of in sweeps.values() if of.get("baseline") in sweeps}
    places = {label: of["x"] for label, of in sweeps.items() if of["series"] in lines}
    if len(places) < 2 or len({(row["configuration"]["dataset"], row["data"]) for row in rows}) > 1:
        return None
    return max(places, key=lambda label: places[label])


def _effect(study: StudyRows, scores: Scores, reference: str | None) -> SweepValue | None:
    """Return MAP@R minus that of a reference; None without the same runs of it."""
    other = scores_of_trainings(study, reference) if reference else None
    if other is None or other.places != scores.places:
        return None
    of = scores.difference(other, "MAP@R")
    return SweepValue(scores.rows[0]["extras"][SWEEP]["x"], of.estimate, of.low, of.high, INTERVAL + of.kind)
