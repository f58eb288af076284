"""Bars with intervals: methods side by side, one colour per loss."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence

import numpy as np

from common.errors import InvalidInput
from common.files import write_atomically
from experiments.reports.intervals import BOTH, CLASSES, TRAININGS, Interval

_COLORS = ("#0072B2", "#E69F00", "#009E73", "#CC79A7")  # Okabe and Ito, "Color universal design", 2008
# Bars whose interval leaves something out look unfinished: hatched, with a dotted line.
_STYLES: Mapping[str, Mapping[str, object]] = {
    BOTH: {"alpha": 1.0, "hatch": None},
    CLASSES: {"alpha": 0.55, "hatch": "////"},
    TRAININGS: {"alpha": 0.55, "hatch": "...."},
}
_LINE_STYLES = {BOTH: "-", CLASSES: ":", TRAININGS: ":"}


def interval_bars(
    groups: Mapping[str, Mapping[str, Interval]],
    path: str | os.PathLike,
    *,
    metric: str = "MAP@R",
    title: str = "",
    untrained: float | None = None,
) -> None:
    """Draw a bar with interval per method and series, as a PNG.

    Bars are hatched, with dotted intervals, unless the interval covers classes and runs. The legend names what the
    intervals of each series cover. The file is written atomically.

    Args:
        groups: by series (a loss), the figures by method (a pooling), as fractions.
        path: where the PNG goes.
        metric: its name, for the axis.
        title: above the axes.
        untrained: the figure of the network before training, as a fraction, for a line; None draws none.

    Raises:
        InvalidInput: there is no figure.
    """
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    methods = list(dict.fromkeys(method for figures in groups.values() for method in figures))
    if not methods:
        raise InvalidInput("There is nothing to draw: received no finished run.")
    figure = Figure(figsize=(7.5, 1.9 + 0.16 * len(methods) * (1 + len(groups))), dpi=150, layout="constrained")
    axes = FigureCanvasAgg(figure).figure.subplots()
    thickness = 0.84 / len(groups)
    for index, (series, figures) in enumerate(groups.items()):
        for kind in dict.fromkeys(bar.kind for bar in figures.values()):
            bars = {method: bar for method, bar in figures.items() if bar.kind == kind}
            places = np.array([methods.index(method) for method in bars]) + (index - (len(groups) - 1) / 2) * thickness
            label = f"{series}, interval: {kind}"
            _draw_bars(axes, places, list(bars.values()), 0.92 * thickness, _COLORS[index % len(_COLORS)], label)
    if untrained is not None:
        axes.axvline(100 * untrained, color="black", linestyle="--", linewidth=1, label="before training")
    axes.set_xlim(left=0.0)  # the length of a bar is its value
    axes.set_yticks(range(len(methods)), methods)
    axes.invert_yaxis()
    kinds = {bar.kind for figures in groups.values() for bar in figures.values()}
    of_kind = f"for new {kinds.pop()}" if len(kinds) == 1 else "(see legend)"
    axes.set_xlabel(f"test {metric} (%), 95 % interval {of_kind}")
    axes.set_title(title, fontsize="medium")
    axes.grid(axis="x", alpha=0.3)
    axes.set_axisbelow(True)
    axes.spines[["top", "right"]].set_visible(False)
    figure.legend(
        loc="outside lower center", frameon=False, fontsize="small", ncols=min(2, len(groups) + (untrained is not None))
    )
    write_atomically(path, lambda file: figure.savefig(file, format="png"))


def _draw_bars(axes, places: np.ndarray, bars: Sequence[Interval], height: float, color: str, label: str) -> None:
    """Draw the bars of one series that share a kind of interval."""
    kind = bars[0].kind
    values = np.array([[bar.estimate, *bar.ends()] for bar in bars]) * 100
    errors = np.clip([values[:, 0] - values[:, 1], values[:, 2] - values[:, 0]], 0, None)
    axes.barh(places, values[:, 0], height=height, color=color, edgecolor="white", label=label, **_STYLES[kind])
    line = {"fmt": "none", "ecolor": "black", "elinewidth": 1.0, "capsize": 1.5}
    (_, _, whiskers) = axes.errorbar(values[:, 0], places, xerr=errors, **line)
    for whisker in whiskers:
        whisker.set_linestyle(_LINE_STYLES[kind])
