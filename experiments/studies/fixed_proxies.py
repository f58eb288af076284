"""Fixed proxies: a loss alone, with one projection problem, and with alternating problems.

Regenerates: thesis figure 3.7: (a) bars of MAP@R for a loss, "Loss-Proxy" (one problem, proxies never replaced) and
    Loss+CCP; (b) histogram of update steps per projection problem.
Command: python -m experiments.figure --id=3.7 --dataset=glyphs --budget=demo --run
Expected: thesis section 6.2: alternating is more than 10 points of MAP@R above fixed proxies on SOP and In-shop; the
    bars, their losses and the histogram's values are not printed.
Cost: `--budget=demo` on glyphs 12 runs, about 12 minutes on 2 CPU cores; `--budget=full` on SOP 48 runs of
    4.5 hours on an RTX 2080 Ti (estimated); `--budget=smoke` a minute.
"""

from __future__ import annotations

import pathlib
from collections.abc import Mapping, Sequence

import numpy as np

from experiments import reports
from experiments.plans.study import Cell, FinishedCells, Study, StudyOptions, finished_units
from experiments.reports import UnitRun
from experiments.reports.plots import picture
from experiments.reports.scores import Scores, figures_row
from experiments.reports.tables import write_table
from experiments.studies.ccp_settings import budget_notes, ccp_settings

_LOSSES = {"full": ("c1", "c2", "ms", "triplet"), "demo": ("c1", "c2", "ms", "triplet"), "smoke": ("c2",)}
_ALONE, _FIXED, _ALTERNATING = "loss alone", "fixed proxies", "alternating (CCP)"


class FixedProxies(Study):
    """Study of three ways of training for each loss."""

    def __init__(self, options: StudyOptions):
        settings = ccp_settings(options)
        self.groups: dict[tuple[str, str], list[Cell]] = {}
        for loss in options.losses or _LOSSES[options.budget]:
            ways = {
                _ALONE: options.configuration(loss, settings=settings),
                _FIXED: options.configuration(loss, "ccp", settings=settings, ccp_max_problems=1),
                _ALTERNATING: options.configuration(loss, "ccp", settings=settings),
            }
            for way, config in ways.items():
                self.groups[loss, way] = options.cells(f"{loss}, {way}", config)
        self.title = f"Fixed and alternating proxies on {options.dataset} (thesis figure 3.7)"
        self.notes = budget_notes(options, settings)

    def naming(self, place: int, group: tuple[str, str]) -> tuple[str, dict[str, object]]:
        """Return a loss and a way, and what it is held against."""
        loss, way = group
        held_against = {_ALONE: None, _FIXED: f"{loss}, {_ALONE}", _ALTERNATING: f"{loss}, {_FIXED}"}[way]
        return f"{loss}, {way}", {"place": place, "held against": held_against}

    def render(self, finished: FinishedCells, folder: pathlib.Path, name: str) -> str:
        """Write the table, the bars and the histograms of recorded problems."""
        units = {group: finished_units(cells, finished) for group, cells in self.groups.items()}
        scores = {f"{loss}, {way}": Scores.of_runs(found) for (loss, way), found in units.items() if found}
        rows = []
        bars: dict[str, dict[str, reports.Interval]] = {}
        for loss, way in self.groups:
            if units[loss, way]:
                others = (_ALONE, _FIXED) if way == _ALTERNATING else ()
                against = {f"minus {other}": f"{loss}, {other}" for other in others}
                rows.append(figures_row(scores, f"{loss}, {way}", against))
                bars.setdefault(loss, {})[way] = scores[f"{loss}, {way}"].estimate("MAP@R")
        lines = [write_table(rows, folder, name, self.title, self.notes)]
        reports.interval_bars(bars, folder / f"{name}a.png", title=self.title)
        lines.append(f"Figure (a): {folder / f'{name}a.png'}")
        lengths = {
            loss: problem_lengths(of_group)
            for (loss, way), of_group in units.items()
            if way == _ALTERNATING and of_group
        }
        if any(of_kind for kinds in lengths.values() for of_kind in kinds.values()):
            title = f"Steps of each projection problem, {self.title[self.title.index('on') :]}"
            draw_lengths(lengths, folder / f"{name}b.png", title)
            lines.append(f"Figure (b): {folder / f'{name}b.png'}")
            lines += [f"{loss}: steps of its problems {_listed(kinds)}" for loss, kinds in lengths.items()]
        return "\n".join(lines)


def problem_lengths(units: Sequence[UnitRun]) -> dict[str, list[int]]:
    """List steps of projection problems, separating those that training's end cut off."""
    lengths: dict[str, list[int]] = {"ended by validation": [], "cut off by the end of training": []}
    whole, cut = lengths.values()
    for unit in units:
        steps = [problem["steps"] for problem in unit.measured["problems"]]  # none if training ended before the first
        whole += steps[:-1]
        cut += steps[-1:]
    return lengths


def _listed(kinds: dict[str, list[int]]) -> str:
    return "; ".join(f"{', '.join(map(str, values)) or 'none'} ({kind})" for kind, values in kinds.items())


_COLORS = {True: "#0072B2", False: "#B8C4CE"}  # whole, cut off


def draw_lengths(lengths: Mapping[str, Mapping[str, Sequence[int]]], path: pathlib.Path, title: str) -> None:
    """Draw a histogram of each loss' `problem_lengths`, their kinds stacked, as PNG."""
    from matplotlib.ticker import MaxNLocator

    longest = max(max(of_kind, default=0) for kinds in lengths.values() for of_kind in kinds.values())
    bins = np.linspace(0, longest, 13)
    with picture(path, 7, 1.1 + 1.5 * len(lengths), rows=len(lengths), sharex=True) as (figure, panels):
        for panel, (name, kinds) in zip(panels, lengths.items()):
            colors = [_COLORS[index == 0] for index in range(len(kinds))]
            style = {"color": colors, "label": list(kinds), "edgecolor": "white"}
            panel.hist(list(kinds.values()), bins=bins, stacked=True, **style)
            panel.set_title(name, fontsize="small", loc="left")
            panel.set_ylabel("problems")
            panel.yaxis.set_major_locator(MaxNLocator(integer=True, nbins=4))
        panels[0].legend(frameon=False, fontsize="small")
        panels[-1].set_xlabel("update steps of a problem")
        figure.suptitle(title, fontsize="medium")
