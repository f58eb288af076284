"""Bayesian search over the weight of the proximal term and the number of proxies per class.

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
import pathlib
from typing import Any

import numpy as np

from experiments.reports import PlainTable
from experiments.reports.surfaces import SurfaceGrid, regression_surface
from experiments.settings.config import ExperimentConfig
from experiments.settings.methods.ccp import ProjectionSettings
from experiments.studies.bayesian_search import BayesianSearch, Surface
from experiments.studies.ccp_settings import ablation_protocol, budget_notes, ccp_settings
from experiments.studies.study import (
    Cell,
    FinishedCells,
    Study,
    StudyOptions,
    best_validation,
    finished_units,
    write_table,
)

_EXPONENTS = np.arange(-5, -0.75, 0.25)  # of lambda, from 1e-5 to 1e-1
_NUM_POINTS = {"full": (8, 25), "demo": (5, 10), "smoke": (2, 3)}  # before the first regression, in all
_LABELS = ("log10 of lambda", "proxies per class", "validation MAP@R (%), mean of the regression")


class LambdaAndProxies(Study):
    """The search over (log lambda, number of proxies), and lambda = 0 beside it.

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
        self.candidates = list(itertools.product(_EXPONENTS, range(1, self.pool_size + 1)))
        self.grid = np.array([self._scaled(*candidate) for candidate in self.candidates])
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

    def _scaled(self, exponent: float, proxies: float) -> tuple[float, float]:
        along_exponents = (exponent - _EXPONENTS[0]) / np.ptp(_EXPONENTS)
        return along_exponents, (proxies - 1) / max(self.pool_size - 1, 1)

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
        """Lambda = 0, then the search's points as far as they are known."""
        return [*self.without, *(cell for index in self._path(finished) for cell in self._cells_at(index))]

    def render(self, finished: FinishedCells, folder: pathlib.Path, name: str) -> str:
        """Writes the table of points, and the surface once there are two of them."""
        path = self._path(finished)
        measured = [(index, value) for index in path if (value := self._value_at(index, finished)) is not None]
        lines = []
        for number, (index, value) in enumerate(measured, start=1):
            exponent, proxies = self.candidates[index]
            kind = "initial" if index in self.search.initial else "search"
            lines.append([f"{number}", f"{10**exponent:.3g}", f"{proxies}", kind, f"{100 * value:.2f}"])
        units = finished_units(self.without, finished)
        if len(units) == len(self.without):
            without, mean = self.without[0].config.proxies_per_class, np.mean(best_validation(units))
            lines.append(["-", "0", f"{without}", "apart", f"{100 * mean:.2f}"])
        header = ["point", "lambda", "proxies", "chosen by", "validation MAP@R (%)"]
        notes, drawn = list(self.notes), ""
        if len(measured) > 1:
            notes.insert(0, self._draw(measured, folder / f"{name}.png"))
            drawn = f"Figure: {folder / f'{name}.png'}"
        return write_table(PlainTable(self.title, header, lines, notes), folder, name) + drawn

    def _draw(self, measured: list[tuple[int, float]], path: pathlib.Path) -> str:
        """Draws the surface; returns where its maximum is."""
        indices, values = [index for index, _ in measured], [value for _, value in measured]
        fitted = Surface(self.grid[indices], np.array(values))
        exponents, counts = np.linspace(_EXPONENTS[0], _EXPONENTS[-1], 81), np.linspace(1, self.pool_size, 61)
        fine = np.array([self._scaled(*place) for place in itertools.product(exponents, counts)])
        surface = SurfaceGrid(exponents, counts, fitted.mean(fine).reshape(len(exponents), len(counts)).T)
        points = [(*self.candidates[index], value) for index, value in measured]
        regression_surface(surface, points, path, labels=_LABELS, title=self.title)
        mean = fitted.mean(self.grid).round(6)
        exponent, proxies = self.candidates[int(mean.argmax())]
        return (
            f"The regression is largest, {100 * mean.max():.2f}, at lambda {10**exponent:.3g} with {proxies} proxies "
            f"(thesis on CUB: lambda 0.0002 with 8)."
        )
