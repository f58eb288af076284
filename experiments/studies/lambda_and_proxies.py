"""Bayesian search over the proximal term's weight and the number of proxies.

Regenerates: thesis figure 3.5 (surface of a Gaussian-process regression of validation MAP@R over lambda and the number
    of proxies; CUB, C2 with CCP, an ablation split).
Expected: thesis section 3.3.2.3: lambda 2e-4 with 8 proxies (pool of 12) on CUB; useful lambda from 1e-5 to 1e-1. The
    surface's values and the range of proxies are not printed.
"""

from __future__ import annotations

import functools
import itertools
import pathlib
import warnings
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from experiments.plans.study import Cell, FinishedCells, Study, StudyOptions, best_validation, finished_rows
from experiments.reports import Table
from experiments.reports.plots import picture
from experiments.reports.scores import rows_with, scores_of_trainings
from experiments.rows.rows import Row
from experiments.rows.store import StudyRows
from experiments.settings.config import ExperimentConfig
from experiments.studies.chapters import ablation_protocol, budget_notes, ccp_settings

_EXPONENTS = np.arange(-5, -0.75, 0.25)  # of lambda, from 1e-5 to 1e-1
_NUM_POINTS = {"full": (8, 25), "demo": (5, 10), "smoke": (2, 3)}  # before the first regression, in all
_HEADER = ("point", "lambda", "proxies", "chosen by", "validation MAP@R (%)")
SEARCH = "search"  # of a row's extras: the point's place in the search


class LambdaAndProxies(Study):
    """Search over (log lambda, number of proxies) with one loss, beside lambda = 0."""

    def __init__(self, options: StudyOptions):
        self.options, self.loss = options, options.only_loss("c2")
        self.settings = ccp_settings(options, ablation=True)
        plain = options.configuration(self.loss, "ccp", settings=self.settings)
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
        return tuple(self.options.cells(_label(rate, proxies), self._configuration(rate, proxies), one_split=True))

    def _value_at(self, index: int, finished: FinishedCells) -> float | None:
        cells = self._cells_at(index)
        runs = finished_rows(cells, finished)
        return float(np.mean(best_validation(runs))) if len(runs) == len(cells) else None

    def _path(self, finished: FinishedCells) -> list[int]:
        return self.search.path(lambda index: self._value_at(index, finished))

    def cells(self, finished: FinishedCells) -> list[Cell]:
        """Return lambda = 0, then the search's known points."""
        return [*self.without, *(cell for index in self._path(finished) for cell in self._cells_at(index))]

    def recorded(self, finished: FinishedCells) -> StudyRows:
        """Return the rows of measured points, with their places; lambda = 0 is last."""
        points: list[tuple[float | None, int, str, Sequence[Cell]]] = []
        for index in self._path(finished):
            exponent, proxies = self.candidates[index]
            kind = "initial" if index in self.search.initial else "search"
            points.append((float(exponent), proxies, kind, self._cells_at(index)))
        without = self.without[0].config.proxies_per_class
        points.append((None, without, "apart", self.without))
        rows, place = list[Row](), itertools.count()
        for log_rate, count, kind, cells in points:
            runs = finished_rows(cells, finished)
            if len(runs) == len(cells):
                of_search = {"place": next(place), "log10_lambda": log_rate, "proxies": count, "chosen_by": kind}
                label = _label(0.0 if log_rate is None else 10**log_rate, count)
                extras = {SEARCH: {**of_search, "pool_size": self.pool_size}}
                rows += [row.scored().named(label, extras) for row in runs]
        return StudyRows.of_rows(rows)

    def render(self, finished: FinishedCells, folder: pathlib.Path, name: str) -> str:
        """Write the table of points, and the surface if there are two."""
        study, path = self.recorded(finished), folder / f"{name}.png"
        if not study.rows:
            return Table(self.title, _HEADER, [], self.notes).write(folder, name)
        text = lambda_search(study, self.title, self.notes).write(folder, name)
        if len(_searched(recorded_points(study)[0])) < 2:
            return text
        draw_lambda_search(study, path, self.title)
        return f"{text}Figure: {path}"


class SearchPoint(NamedTuple):
    """Measured point."""

    log10_lambda: float | None  # None: lambda = 0, outside the search
    proxies: int  # per class
    chosen_by: str  # `initial`, `search` or `apart`
    value: float  # mean over runs of the best validation MAP@R, a fraction


def _label(rate: float, proxies: int) -> str:
    return f"lambda {rate:.3g}, {proxies} {'proxies' if proxies > 1 else 'proxy'}"


def lambda_search(study: StudyRows, title: str = "", notes: Sequence[str] = ()) -> Table:
    """Tabulate the points of a recorded search, and the regression's maximum below."""
    points, pool_size = recorded_points(study)
    lines = []
    for number, point in enumerate(points, start=1):
        rate = "0" if point.log10_lambda is None else f"{10**point.log10_lambda:.3g}"
        name = "-" if point.log10_lambda is None else f"{number}"
        lines.append([name, rate, f"{point.proxies}", point.chosen_by, f"{100 * point.value:.2f}"])
    largest = [_largest(points, pool_size)] if len(_searched(points)) > 1 else []
    return Table(title, _HEADER, lines, [*largest, *notes])


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


def recorded_points(study: StudyRows) -> tuple[list[SearchPoint], int]:
    """Return the points of a recorded search, in its order, and the pool's size."""
    found = {row["label"]: row["extras"][SEARCH] for row in rows_with(study, SEARCH, "3.5")}
    points = []
    for label in sorted(found, key=lambda label: found[label]["place"]):
        value = float(np.mean([row["validation"]["MAP@R"] for row in scores_of_trainings(study, label).rows]))
        of = found[label]
        points.append(SearchPoint(of["log10_lambda"], of["proxies"], of["chosen_by"], value))
    return points, next(iter(found.values()))["pool_size"]


def draw_lambda_search(study: StudyRows, path: pathlib.Path, title: str) -> None:
    """Draw the regression's filled contours and a search's two or more points (atomic PNG).

    Points are numbered in their order and coloured by their own values, in per cent; the best has a star.
    """
    from matplotlib.patheffects import withStroke

    points, pool_size = recorded_points(study)
    places = np.array([place for place, _ in _searched(points)])
    measured = 100 * np.array([point.value for _, point in _searched(points)])
    exponents, counts = np.linspace(_EXPONENTS[0], _EXPONENTS[-1], 81), np.linspace(1, pool_size, 61)
    mean = _fitted(points, pool_size).mean(_scaled(list(itertools.product(exponents, counts)), pool_size))
    values = 100 * mean.reshape(len(exponents), len(counts)).T
    lowest, highest = min(values.min(), measured.min()), max(values.max(), measured.max())
    if highest - lowest < 1e-9:
        lowest, highest = lowest - 0.5, highest + 0.5
    with picture(path, 7, 4.6, is_framed=True) as (figure, (axes,)):
        levels, scale = np.linspace(lowest, highest, 17), {"cmap": "viridis", "vmin": lowest, "vmax": highest}
        filled = axes.contourf(exponents, counts, values, levels=levels, cmap="viridis")
        style = {"s": 90, "edgecolors": "white", "zorder": 3, "label": "measured, numbered in their order"}
        axes.scatter(*places.T, c=measured, clip_on=False, **scale, **style)
        star = {"marker": "*", "s": 420, "facecolors": "none", "edgecolors": "#D55E00", "zorder": 4}
        axes.scatter(*places[measured.argmax()], clip_on=False, label="best of these", **star)
        middle = np.array([np.mean(axes.get_xlim()), np.mean(axes.get_ylim())])
        for number, place in enumerate(places, start=1):
            across, up = np.where(place > middle, -6, 6)  # inwards, so that no number leaves the axes
            sides = {"ha": "left" if across > 0 else "right", "va": "bottom" if up > 0 else "top", "fontsize": 8}
            label = axes.annotate(f"{number}", place, xytext=(across, up), textcoords="offset points", **sides)
            label.set_path_effects([withStroke(linewidth=2, foreground="white")])  # readable on and beside the surface
        figure.colorbar(filled, ax=axes, label="validation MAP@R (%), mean of the regression", format="%.2f")
        axes.set(xlabel="log10 of lambda", ylabel="proxies per class")
        axes.set_title(title, fontsize="medium")
        figure.legend(loc="outside lower center", frameon=False, fontsize="small", ncols=2, markerscale=0.7)


_TIE_DIGITS = 9  # expected improvements that agree so far are a tie, which the grid's order decides


class Surface:
    """Matérn 5/2 regression over `[points, dims]`, with a length scale per dimension."""

    def __init__(self, points: np.ndarray, values: np.ndarray):
        from sklearn.exceptions import ConvergenceWarning
        from sklearn.gaussian_process import GaussianProcessRegressor
        from sklearn.gaussian_process.kernels import ConstantKernel, Matern, WhiteKernel

        points = np.asarray(points, np.float64)
        scales = Matern(np.full(points.shape[1], 0.5), (0.2, 10.0), nu=2.5)
        kernel = ConstantKernel(1.0, (1e-2, 1e2)) * scales + WhiteKernel(0.05, (1e-4, 1.0))
        self.process = GaussianProcessRegressor(kernel, normalize_y=True, n_restarts_optimizer=1, random_state=0)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)  # with few points, a bound is an answer
            self.process.fit(points, np.asarray(values, np.float64))

    def mean(self, points: np.ndarray) -> np.ndarray:
        """Return the regression's mean `[points]` at points `[points, dims]`."""
        return self.process.predict(np.asarray(points, np.float64))

    def spread(self, points: np.ndarray) -> np.ndarray:
        """Return the noise-free value's standard deviation `[points]` at `[points, dims]`."""
        _, total = self.process.predict(np.asarray(points, np.float64), return_std=True)
        noise = self.process.kernel_.k2.noise_level * self.process._y_train_std**2
        return np.sqrt(np.clip(total**2 - noise, 0, None))

    def expected_improvement(self, points: np.ndarray) -> np.ndarray:
        """Return E[max(0, f(x) - f*)] `[points]`, f* the largest mean at a measured point."""
        from scipy.stats import norm

        mean, spread = self.mean(points), np.maximum(self.spread(points), 1e-12)
        gain = mean - self.mean(self.process.X_train_).max()
        return gain * norm.cdf(gain / spread) + spread * norm.pdf(gain / spread)


class BayesianSearch:
    """Grid points that a search visits, as far as values are known.

    First come points of a Halton sequence, then, one by one, the unvisited point with the largest expected improvement.
    Point k + 1 depends only on the values at the points 1 .. k.

    Args:
        grid: candidates `[candidates, dims]` in [0, 1].
        num_initial: points before the first regression, >= 2.
        num_points: points in all, at most as many as candidates.
    """

    def __init__(self, grid: np.ndarray, num_initial: int, num_points: int):
        self.grid, self.num_points = grid, min(num_points, len(grid))
        self.initial = initial_points(grid, num_initial)
        self._next: dict[tuple, int] = {}  # what follows a beginning with its values; saves regressions, nothing else

    def path(self, value_at: Callable[[int], float | None]) -> list[int]:
        """Return the initial candidates' indices and one more per complete beginning.

        A value that is not known yet is None.
        """
        path = list(self.initial)
        while len(path) < self.num_points:
            values = [value for index in path if (value := value_at(index)) is not None]
            if len(values) < len(path):
                break
            beginning = (tuple(path), tuple(values))
            if beginning not in self._next:
                self._next[beginning] = next_point(self.grid, path, values)
            path.append(self._next[beginning])
        return path


def initial_points(grid: np.ndarray, num_points: int) -> list[int]:
    """Return the distinct candidates nearest to the start of a Halton sequence."""
    from scipy.stats.qmc import Halton

    sequence = Halton(grid.shape[1], scramble=False).fast_forward(1)  # not from the origin
    chosen: list[int] = []
    while len(chosen) < min(num_points, len(grid)):
        (target,) = sequence.random()
        nearest = int(np.argmin(((grid - target) ** 2).sum(axis=1).round(_TIE_DIGITS)))
        if nearest not in chosen:
            chosen.append(nearest)
    return chosen


def next_point(grid: np.ndarray, visited: Sequence[int], values: Sequence[float]) -> int:
    """Return the unvisited candidate of largest expected improvement (first of ties)."""
    improvement = Surface(grid[list(visited)], np.asarray(values)).expected_improvement(grid)
    improvement[list(visited)] = -np.inf
    scale = max(np.ptp(values), 1e-12)
    return int(np.argmax(np.round(improvement / scale, _TIE_DIGITS)))
