"""Methods side by side: ways of training with proxies (thesis figure 3.7), and all poolings (5.12).

Figure 3.7: (a) bars of MAP@R for a loss, "Loss-Proxy" (one problem, proxies never replaced) and Loss+CCP; (b) histogram
of update steps per projection problem. Thesis section 6.2: alternating is more than 10 points above fixed proxies on
SOP and In-shop; the bars, their losses and the histogram's values are not printed.

Figure 5.12: 17 poolings under C2 and PNCA, on Cifar Collage and CUB. Thesis section 5.3.5: GSP is ahead of all others
on Cifar Collage, which starts from a CIFAR-100 classifier (--weights=resnet20.npz); GeMean is next on CUB.
"""

from __future__ import annotations

import itertools
import pathlib
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from experiments import reports
from experiments.parts.datasets import traits_of
from experiments.plans.study import FinishedCells, Study, StudyOptions, finished_rows
from experiments.recipes.small_images import COLLAGE_GSP
from experiments.reports.plots import picture
from experiments.reports.scores import Scores, figures_row, labels_of, scores_of_trainings
from experiments.reports.tables import figures_table
from experiments.rows.rows import Row
from experiments.settings.build import MAP_POOLINGS
from experiments.settings.config import ExperimentConfig
from experiments.studies.chapters import budget_notes, ccp_settings
from experiments.studies.collages import start_notes

_POOLING_STEPS = 480  # at the demo budget, so that 38 runs take less than 25 minutes; an evaluation at half of it
_POOLING_DELAY = 100  # steps before prototypes are chosen among local features


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


def poolings(options: StudyOptions) -> Bars:
    """Return the study of figure 5.12."""
    is_small = options.budget == "smoke"
    bars = []
    for loss in options.losses or (("c2",) if is_small else ("c2", "pnca")):
        for pooling in ("gap", "gsp") if is_small else MAP_POOLINGS:
            config = _pooled(options.with_pooling(pooling), loss)
            average = None if pooling == "gap" else f"{loss}+gap"
            bars.append(Bar(config.name, config, loss, pooling, {"minus gap": average} if average else {}, average))
    title = f"Poolings on {options.dataset} (thesis figure 5.12)"
    notes = start_notes(options.dataset, options.overrides.get("weights"))
    return Bars(title, bars, options, notes, is_sorted=True)


def _pooled(options: StudyOptions, loss: str) -> ExperimentConfig:
    """Return a method's configuration; fields set by hand hold for poolings with them."""
    settings: dict[str, object] = {"chapter": 5}
    if traits_of(options.dataset).kind == "collages":
        settings |= {**COLLAGE_GSP, "gsp_memory_delay": _POOLING_DELAY}
    if options.budget == "demo":
        settings |= {"max_steps": _POOLING_STEPS, "steps_per_evaluation": _POOLING_STEPS // 2}
    return options.configuration(loss, settings=settings)


_ALONE, _FIXED, _ALTERNATING = "loss alone", "fixed proxies", "alternating (CCP)"
_COLORS = {True: "#0072B2", False: "#B8C4CE"}  # whole, cut off


class FixedProxies(Bars):
    """Three ways of training for each loss, with the lengths of their problems."""

    def __init__(self, options: StudyOptions):
        settings = ccp_settings(options)
        bars = []
        for loss in options.losses or (("c2",) if options.budget == "smoke" else ("c1", "c2", "ms", "triplet")):
            alone, fixed, alternating = (f"{loss}, {way}" for way in (_ALONE, _FIXED, _ALTERNATING))
            against = {f"minus {_ALONE}": alone, f"minus {_FIXED}": fixed}
            plain = options.configuration(loss, settings=settings)
            once = options.configuration(loss, "ccp", settings=settings, ccp_max_problems=1)
            again = options.configuration(loss, "ccp", settings=settings)
            bars += [Bar(alone, plain, loss, _ALONE), Bar(fixed, once, loss, _FIXED, {}, alone)]
            bars.append(Bar(alternating, again, loss, _ALTERNATING, against, fixed))
        title = f"Fixed and alternating proxies on {options.dataset} (thesis figure 3.7)"
        super().__init__(title, bars, options, budget_notes(options, settings), picture="a")

    def render(self, finished: FinishedCells, folder: pathlib.Path, name: str) -> str:
        """Write the table, the bars and the histograms of recorded problems."""
        lines, lengths = [super().render(finished, folder, name)], {}
        for bar in self.bars.values():
            runs = finished_rows(self.groups[bar.label], finished)
            if bar.name == _ALTERNATING and runs:
                lengths[bar.group] = problem_lengths(runs)
        if any(itertools.chain.from_iterable(of_kind for kinds in lengths.values() for of_kind in kinds.values())):
            path = folder / f"{name}b.png"
            draw_lengths(lengths, path, f"Steps of each projection problem, {self.title[self.title.index('on') :]}")
            lines.append(f"Figure (b): {path}")
            lines += [f"{loss}: steps of its problems {_listed(kinds)}" for loss, kinds in lengths.items()]
        return "\n".join(lines)


def problem_lengths(runs: Sequence[Row]) -> dict[str, list[int]]:
    """List steps of projection problems, separating those that training's end cut off."""
    lengths: dict[str, list[int]] = {"ended by validation": [], "cut off by the end of training": []}
    whole, cut = lengths.values()
    for row in runs:
        steps = [problem["steps"] for problem in row["extras"]["problems"]]  # none if training ended before the first
        whole += steps[:-1]
        cut += steps[-1:]
    return lengths


def _listed(kinds: dict[str, list[int]]) -> str:
    return "; ".join(f"{', '.join(map(str, values)) or 'none'} ({kind})" for kind, values in kinds.items())


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
