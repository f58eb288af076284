"""Screening design of eight cells over GSP's four hyper-parameters, and its main effects.

Regenerates: thesis table 5.4 (2^(4-1) fractional factorial design of resolution IV with the defining relation
    lambda = m mu eps; CUB, C2 and PNCA, the tuning split, validation MAP@R).
Expected: the printed cells, beside ours on CUB. Their main effects (high minus low): C2 -0.25 (m), -0.405 (mu),
    -2.785 (eps), -1.83 (lambda); PNCA -0.27, +0.105, -0.675, +0.17. The text's "the lower the better for lambda and mu"
    holds for C2 alone.
"""

from __future__ import annotations

import itertools
import pathlib
from typing import Any, NamedTuple

import numpy as np

from experiments import reports
from experiments.plans.study import Cell, FinishedCells, Study, StudyOptions, best_validation, finished_rows
from experiments.reports import Table
from experiments.reports.intervals import interval_of_runs
from experiments.studies.chapters import tuning_notes, tuning_protocol, tuning_settings


class Factor(NamedTuple):
    """Hyper-parameter at two levels; `name` is also its column in the printed table."""

    name: str
    field: str
    low: float
    high: float

    def level(self, sign: int) -> float:
        """Return the value at -1 or +1."""
        return self.high if sign > 0 else self.low


FACTORS = (
    Factor("m", "num_prototypes", 16, 128),
    Factor("mu", "transport_ratio", 0.3, 0.7),
    Factor("eps", "smoothing", 0.5, 20.0),
    Factor("lambda", "zero_shot_weight", 0.1, 0.5),
)
# The fourth factor is the product of the others: no main effect is confounded with an interaction of two factors.
SIGNS = tuple((m, mu, eps, m * mu * eps) for eps, m, mu in itertools.product((-1, 1), repeat=3))
BASELINE = "gap"
_LOSSES = {"full": ("c2", "pnca"), "demo": ("c2",), "smoke": ("c2",)}


class Screening(Study):
    """Study of the design's eight cells and average pooling, for each loss."""

    def __init__(self, options: StudyOptions):
        self.dataset, settings = options.dataset, tuning_settings(options)
        self.groups: dict[tuple, list[Cell]] = {}
        for loss in options.losses or _LOSSES[options.budget]:
            for signs in SIGNS:
                levels: dict[str, Any] = {factor.field: factor.level(sign) for factor, sign in zip(FACTORS, signs)}
                label = ", ".join(f"{factor.name} {factor.level(sign):g}" for factor, sign in zip(FACTORS, signs))
                config = options.with_pooling("gsp").configuration(loss, settings=settings, **levels)
                self.groups[loss, signs] = options.cells(f"{loss}+gsp, {label}", config, one_split=True)
            baseline = options.with_pooling(BASELINE).configuration(loss, settings=settings)
            self.groups[loss, None] = options.cells(f"{loss}+{BASELINE}", baseline, one_split=True)
        self.title = f"Screening of GSP's hyper-parameters on {options.dataset} (thesis table 5.4)"
        self.notes, self.protocol = tuning_notes(options), tuning_protocol(options)

    def render(self, finished: FinishedCells, folder: pathlib.Path, name: str) -> str:
        """Write the table of cells, and the main effects of designs with complete runs."""
        lines = []
        for (loss, signs), cells in self.groups.items():
            values = best_validation(finished_rows(cells, finished))
            if not values:
                continue
            levels = [f"{factor.level(sign):g}" for factor, sign in zip(FACTORS, signs)] if signs else ["-"] * 4
            method = f"{loss}+{'gsp' if signs else BASELINE}"
            spread = f"[{100 * min(values):.2f}, {100 * max(values):.2f}]" if len(values) > 1 else "-"
            printed = printed_value(self.dataset, loss, signs)
            ours = [f"{100 * np.mean(values):.2f}", spread, f"{len(values)}"]
            lines.append([method, *levels, *ours, "-" if printed is None else f"{printed:.2f}"])
        header = ["method", *(factor.name for factor in FACTORS), "validation MAP@R (%)", "range", "runs", "published"]
        text = Table(self.title, header, lines, self.notes).write(folder, name, latex=True)
        return text + self._write_effects(finished, folder, f"{name}_effects")

    def _write_effects(self, finished: FinishedCells, folder: pathlib.Path, name: str) -> str:
        lines = []
        for loss in dict.fromkeys(loss for loss, _ in self.groups):
            values = self._complete_trainings(loss, finished)
            printed = [printed_value(self.dataset, loss, signs) for signs in SIGNS]
            theirs = [None] * 4 if None in printed else main_effects(np.array([printed]))
            for factor, ours, others in zip(FACTORS, main_effects(values) if len(values) else (), theirs):
                lines.append(
                    [f"{loss}: {factor.name}", *ours.entries(100), *(others.entries(1)[:3] if others else "---")]
                )
        if not lines:
            return ""
        sides = ("mean at low", "mean at high", "effect")
        header = ["factor", *sides, "95 % interval", "runs", *(f"published: {side}" for side in sides)]
        notes = (
            "A main effect is the mean of four cells at the high level minus that of the four at the low one; the "
            "interval is Student's over runs (repeats on one split), and takes the classes as given.",
        )
        title = self.title.replace("Screening", "Main effects", 1)
        return "\n" + Table(title, header, lines, notes).write(folder, name, latex=True)

    def _complete_trainings(self, loss: str, finished: FinishedCells) -> np.ndarray:
        """Return best validations `[runs, cells]` of repeats with all eight cells."""
        columns = []
        for signs in SIGNS:
            runs = finished_rows(self.groups[loss, signs], finished)
            columns.append(dict(zip((row.place for row in runs), best_validation(runs))))
        complete = sorted(set.intersection(*(set(column) for column in columns)))
        return np.array([[column[training] for column in columns] for training in complete])


class MainEffect(NamedTuple):
    """Means at both levels, and the interval of high minus low, or None."""

    low: float
    high: float
    bounds: reports.Interval | None
    num_trainings: int

    def entries(self, scale: float) -> list[str]:
        """Format texts for a table; `scale` is 100 for fractions."""
        means = [f"{scale * self.low:.2f}", f"{scale * self.high:.2f}", f"{scale * (self.high - self.low):+.2f}"]
        bounds = f"[{scale * self.bounds.low:+.2f}, {scale * self.bounds.high:+.2f}]" if self.bounds else "-"
        return [*means, bounds, f"{self.num_trainings}"]


def main_effects(values: np.ndarray) -> list[MainEffect]:
    """Compute each factor's main effect from `[runs, cells]`, cells in the order of `SIGNS`."""
    sides = [(values[:, column < 0].mean(axis=1), values[:, column > 0].mean(axis=1)) for column in np.array(SIGNS).T]
    return [
        MainEffect(float(low.mean()), float(high.mean()), interval_of_runs(high - low), len(values))
        for low, high in sides
    ]


def printed_value(dataset: str, loss: str, signs: tuple[int, ...] | None) -> float | None:
    """Return the printed cell in percent, or None; without signs, that of average pooling."""
    wanted = [factor.level(sign) for factor, sign in zip(FACTORS, signs)] if signs else [""] * 4
    for row in reports.published_table("5.4"):
        levels = [row[factor.name] and float(row[factor.name]) for factor in FACTORS]
        if (row["dataset"], row["loss"].lower(), levels) == (reports.published_dataset(dataset), loss, wanted):
            return float(row["value"])
    return None
