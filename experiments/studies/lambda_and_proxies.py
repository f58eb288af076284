"""Bayesian search over the proximal term's weight and the number of proxies.

Regenerates: thesis figure 3.5 (surface of a Gaussian-process regression of validation MAP@R over lambda and the number
    of proxies; CUB, C2 with CCP, an ablation split).
Command: python -m experiments.figure --id=3.5 --dataset=glyphs --budget=demo --run
Expected: thesis section 3.3.2.3: lambda 2e-4 with 8 proxies (pool of 12) on CUB; useful lambda from 1e-5 to 1e-1. The
    surface's values and the range of proxies are not printed.
Cost: `--budget=demo` on glyphs 11 runs, about 12 minutes on 2 CPU cores; `--budget=full` on CUB 26 runs (one
    split) of 31 minutes on an RTX 2080 Ti (estimated); `--budget=smoke` two minutes.
"""

from __future__ import annotations

import functools
import itertools
import os
import pathlib
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from common.files import write_atomically
from experiments.plans.study import (
    Cell,
    FinishedCells,
    RecordedMethod,
    Study,
    StudyOptions,
    best_validation,
    finished_units,
    write_table,
)
from experiments.reports import PlainTable, UnitRun
from experiments.rows.fair_rows import rows_with
from experiments.rows.scores import scores_of_trainings
from experiments.rows.store import StudyRows
from experiments.settings.config import ExperimentConfig
from experiments.settings.methods.ccp import ProjectionSettings
from experiments.studies.bayesian_search import BayesianSearch, Surface
from experiments.studies.ccp_settings import ablation_protocol, budget_notes, ccp_settings

_EXPONENTS = np.arange(-5, -0.75, 0.25)  # of lambda, from 1e-5 to 1e-1
_NUM_POINTS = {"full": (8, 25), "demo": (5, 10), "smoke": (2, 3)}  # before the first regression, in all
SEARCH = "search"  # of a row's extras: the point's place in the search
_INITIAL, _SEARCHED, _APART = "initial", "search", "apart"
_LABELS = ("log10 of lambda", "proxies per class", "validation MAP@R (%), mean of the regression")


class LambdaAndProxies(Study):
    """Search over (log lambda, number of proxies), beside lambda = 0.

    Args:
        options: of the study; one loss.

    Raises:
        InvalidInput: more than one loss.
    """

    def __init__(self, options: StudyOptions):
        self.options, self.loss = options, options.only_loss("c2")
        self.settings = ccp_settings(options, ablation=True)
        plain = options.configuration(self.loss, "ccp", settings=self.settings).part(ProjectionSettings)
        self.pool_size = plain.pool_size
        self.candidates = _candidates(self.pool_size)
        self.grid = _scaled(self.candidates, self.pool_size)
        self.search = BayesianSearch(self.grid, *_NUM_POINTS[options.budget])
        without = self._configuration(0.0, plain.proxies_per_class)
        self.without = options.cells("lambda 0", without, one_split=True)
        self.protocol = ablation_protocol(options)
        self.num_cells = (1 + self.search.num_points) * len(self.without)
        self.title = f"{self.loss}+ccp: lambda and number of proxies on {options.dataset} (thesis figure 3.5)"
        self.notes = (
            f"Gaussian-process regression with expected improvement, {len(self.search.initial)} points before the "
            f"first regression, {self.search.num_points} in all; pool of {self.pool_size}.",
            *budget_notes(options, self.settings),
        )

    def _configuration(self, rate: float, proxies: int) -> ExperimentConfig:
        varied: dict[str, Any] = {"proxies_per_class": proxies, "ccp_lambda": rate}
        if self.options.recipe == "thesis":  # the published code's first problem has no proximal term
            varied["ccp_first_lambda"] = rate
        return self.options.configuration(self.loss, "ccp", settings=self.settings, **varied)

    @functools.cache  # noqa: B019, a study lives as long as its command
    def _cells_at(self, index: int) -> tuple[Cell, ...]:
        exponent, proxies = self.candidates[index]
        rate = float(f"{10**exponent:.4g}")
        label = f"lambda {rate:.3g}, {proxies} {'proxies' if proxies > 1 else 'proxy'}"
        return tuple(self.options.cells(label, self._configuration(rate, proxies), one_split=True))

    def _value_at(self, index: int, finished: FinishedCells) -> float | None:
        cells = self._cells_at(index)
        units = finished_units(cells, finished)
        return float(np.mean(best_validation(units))) if len(units) == len(cells) else None

    def _path(self, finished: FinishedCells) -> list[int]:
        return self.search.path(lambda index: self._value_at(index, finished))

    def cells(self, finished: FinishedCells) -> list[Cell]:
        """Return lambda = 0, then the search's known points."""
        return [*self.without, *(cell for index in self._path(finished) for cell in self._cells_at(index))]

    def points(self, finished: FinishedCells) -> list[tuple[SearchPoint, list[UnitRun]]]:
        """Return the measured points with their runs: the search's, then lambda = 0.

        Args:
            finished: the trained units.
        """
        found = []
        for index in self._path(finished):
            value = self._value_at(index, finished)
            if value is not None:
                exponent, proxies = self.candidates[index]
                kind = _INITIAL if index in self.search.initial else _SEARCHED
                point = SearchPoint(float(exponent), proxies, kind, value)
                found.append((point, finished_units(self._cells_at(index), finished)))
        units = finished_units(self.without, finished)
        if len(units) == len(self.without):
            value = float(np.mean(best_validation(units)))
            point = SearchPoint(None, self.without[0].config.part(ProjectionSettings).proxies_per_class, _APART, value)
            found.append((point, units))
        return found

    def recorded(self, finished: FinishedCells) -> list[RecordedMethod]:
        """Return the runs of each point, with its place in the search."""
        methods = []
        for place, (point, units) in enumerate(self.points(finished)):
            of_search: dict[str, object] = {
                "place": place,
                "log10_lambda": point.log10_lambda,
                "proxies": point.proxies,
            }
            of_search |= {"chosen_by": point.chosen_by, "pool_size": self.pool_size}
            methods.append(RecordedMethod(tuple(units), point.label, {SEARCH: of_search}))
        return methods

    def render(self, finished: FinishedCells, folder: pathlib.Path, name: str) -> str:
        """Write the table of points, and the surface if there are two."""
        points = [point for point, _ in self.points(finished)]
        drawn = ""
        if has_surface(points):
            draw_search(self.title, points, self.pool_size, folder / f"{name}.png")
            drawn = f"Figure: {folder / f'{name}.png'}"
        return write_table(search_table(self.title, points, self.pool_size, self.notes), folder, name) + drawn


class SearchPoint(NamedTuple):
    """Measured point.

    Attributes:
        log10_lambda: of the proximal term's weight; None: lambda = 0, outside the search.
        proxies: per class.
        chosen_by: `initial`, `search` or `apart`.
        value: the mean of the runs' best validation MAP@R, as a fraction.
    """

    log10_lambda: float | None
    proxies: int
    chosen_by: str
    value: float

    @property
    def label(self) -> str:
        """The point's name in tables."""
        rate = 0.0 if self.log10_lambda is None else 10**self.log10_lambda
        return f"lambda {rate:.3g}, {self.proxies} {'proxies' if self.proxies > 1 else 'proxy'}"


def search_table(title: str, points: Sequence[SearchPoint], pool_size: int, notes: Sequence[str] = ()) -> PlainTable:
    """Tabulate the points, and the regression's maximum below.

    Args:
        title: of the table.
        points: in the order of the search.
        pool_size: the most proxies per class.
        notes: footnotes.
    """
    lines = []
    for number, point in enumerate(points, start=1):
        rate = "0" if point.log10_lambda is None else f"{10**point.log10_lambda:.3g}"
        name = "-" if point.log10_lambda is None else f"{number}"
        lines.append([name, rate, f"{point.proxies}", point.chosen_by, f"{100 * point.value:.2f}"])
    header = ["point", "lambda", "proxies", "chosen by", "validation MAP@R (%)"]
    largest = [_largest(points, pool_size)] if has_surface(points) else []
    return PlainTable(title, header, lines, [*largest, *notes])


def has_surface(points: Sequence[SearchPoint]) -> bool:
    """Return whether a regression has the two points that it needs."""
    return len(_searched(points)) > 1


def draw_search(title: str, points: Sequence[SearchPoint], pool_size: int, path: pathlib.Path) -> None:
    """Draw the regression's surface with the points of the search.

    Args:
        title: above the axes.
        points: in the order of the search, at least two of it.
        pool_size: the most proxies per class.
        path: of the PNG.
    """
    exponents, counts = np.linspace(_EXPONENTS[0], _EXPONENTS[-1], 81), np.linspace(1, pool_size, 61)
    fine = _scaled(list(itertools.product(exponents, counts)), pool_size)
    mean = _fitted(points, pool_size).mean(fine)
    surface = SurfaceGrid(exponents, counts, mean.reshape(len(exponents), len(counts)).T)
    drawn = [(*place, point.value) for place, point in _searched(points)]
    regression_surface(surface, drawn, path, labels=_LABELS, title=title)


def _searched(points: Sequence[SearchPoint]) -> list[tuple[tuple[float, int], SearchPoint]]:
    """Return the points of the search, each with its place on the surface."""
    return [((point.log10_lambda, point.proxies), point) for point in points if point.log10_lambda is not None]


def _fitted(points: Sequence[SearchPoint], pool_size: int) -> Surface:
    searched = _searched(points)
    return Surface(_scaled([place for place, _ in searched], pool_size), np.array([of.value for _, of in searched]))


def _candidates(pool_size: int) -> list[tuple[float, int]]:
    return list(itertools.product(_EXPONENTS, range(1, pool_size + 1)))


def _scaled(places: Sequence[tuple[float, float]], pool_size: int) -> np.ndarray:
    """Map places (log10 of lambda, proxies) to the unit square, `[places, 2]`."""
    exponents, proxies = np.asarray(places, np.float64).T
    along_exponents = (exponents - _EXPONENTS[0]) / np.ptp(_EXPONENTS)
    return np.stack([along_exponents, (proxies - 1) / max(pool_size - 1, 1)], axis=1)


def _largest(points: Sequence[SearchPoint], pool_size: int) -> str:
    """Name the place of the regression's maximum, in a sentence."""
    candidates = _candidates(pool_size)
    mean = _fitted(points, pool_size).mean(_scaled(candidates, pool_size)).round(6)
    exponent, proxies = candidates[int(mean.argmax())]
    return (
        f"The regression is largest, {100 * mean.max():.2f}, at lambda {10**exponent:.3g} with {proxies} proxies "
        f"(thesis on CUB: lambda 0.0002 with 8)."
    )


def lambda_search(study: StudyRows) -> PlainTable:
    """Tabulate a recorded search: its points and the regression's maximum."""
    points, pool_size = recorded_points(study)
    return search_table("", points, pool_size)


def draw_lambda_search(study: StudyRows, path: pathlib.Path, title: str) -> None:
    """Draw the surface of a recorded search."""
    points, pool_size = recorded_points(study)
    draw_search(title, points, pool_size, path)


def recorded_points(study: StudyRows) -> tuple[list[SearchPoint], int]:
    """Return the points of a recorded search, in its order, and the pool's size."""
    found = {row["label"]: row["extras"][SEARCH] for row in rows_with(study, SEARCH, "3.5")}
    points = []
    for label in sorted(found, key=lambda label: found[label]["place"]):
        value = float(np.mean([row["validation"]["MAP@R"] for row in scores_of_trainings(study, label).rows]))
        of = found[label]
        points.append(SearchPoint(of["log10_lambda"], of["proxies"], of["chosen_by"], value))
    return points, next(iter(found.values()))["pool_size"]


class SurfaceGrid(NamedTuple):
    """Values on a grid: `x` [columns], `y` [rows], `values` [rows, columns], fractions."""

    x: np.ndarray
    y: np.ndarray
    values: np.ndarray


def regression_surface(
    surface: SurfaceGrid,
    points: Sequence[tuple[float, float, float]],
    path: str | os.PathLike,
    *,
    labels: tuple[str, str, str],
    title: str = "",
) -> None:
    """Draw filled contours of the surface and points, numbered in order (atomic PNG).

    Args:
        surface: the regression's mean.
        points: (x, y, measured value as a fraction); a point is coloured by its own value, the best has a star.
        path: of the PNG.
        labels: of the x axis, the y axis and the colours; values are drawn in percent.
        title: above the axes.
    """
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure
    from matplotlib.patheffects import withStroke

    places, measured = np.array([point[:2] for point in points]), 100 * np.array([point[2] for point in points])
    values = 100 * surface.values
    lowest, highest = min(values.min(), measured.min()), max(values.max(), measured.max())
    if highest - lowest < 1e-9:
        lowest, highest = lowest - 0.5, highest + 0.5
    figure = Figure(figsize=(7, 4.6), dpi=150, layout="constrained")
    axes = FigureCanvasAgg(figure).figure.subplots()
    levels = np.linspace(lowest, highest, 17)
    filled = axes.contourf(surface.x, surface.y, values, levels=levels, cmap="viridis")
    style: dict[str, Any] = {"c": measured, "cmap": "viridis", "vmin": lowest, "vmax": highest, "edgecolors": "white"}
    style["label"] = "measured, numbered in their order"
    axes.scatter(places[:, 0], places[:, 1], s=90, zorder=3, clip_on=False, **style)
    best = int(measured.argmax())
    axes.scatter(
        places[best : best + 1, 0],
        places[best : best + 1, 1],
        marker="*",
        s=420,
        facecolors="none",
        edgecolors="#D55E00",
        zorder=4,
        clip_on=False,
        label="best of these",
    )
    middle = np.array([np.mean(axes.get_xlim()), np.mean(axes.get_ylim())])
    for number, place in enumerate(places, start=1):
        offset = np.where(place > middle, -6, 6)  # inwards, so that no number leaves the axes
        sides: dict[str, Any] = {"ha": "left" if offset[0] > 0 else "right", "va": "bottom" if offset[1] > 0 else "top"}
        label = axes.annotate(
            f"{number}", place, xytext=(offset[0], offset[1]), textcoords="offset points", fontsize=8, **sides
        )
        label.set_path_effects([withStroke(linewidth=2, foreground="white")])  # readable on and beside the surface
    figure.colorbar(filled, ax=axes, label=labels[2], format="%.2f")
    axes.set_xlabel(labels[0])
    axes.set_ylabel(labels[1])
    axes.set_title(title, fontsize="medium")
    figure.legend(loc="outside lower center", frameon=False, fontsize="small", ncols=2, markerscale=0.7)
    write_atomically(path, lambda file: figure.savefig(file, format="png"))
