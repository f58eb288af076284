"""Bars with intervals: methods side by side, one colour a loss."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence

import numpy as np
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from common.ops.checks import InvalidInput
from common.training.run_directory import write_atomically
from experiments.reports.intervals import Interval

_COLORS = ("#0072B2", "#E69F00", "#009E73", "#CC79A7")  # Okabe and Ito, "Color universal design", 2008


def interval_bars(
    groups: Mapping[str, Mapping[str, Interval]],
    path: str | os.PathLike,
    *,
    metric: str = "MAP@R",
    title: str = "",
    highlighted: Sequence[str] = (),
) -> None:
    """Draws one horizontal bar a method and series with its interval, into a PNG that appears whole or not at all.

    Args:
        groups: by series (a loss), the figures by method (a pooling), as fractions.
        path: where the PNG goes.
        metric: its name, for the axis.
        title: above the axes.
        highlighted: methods whose name is printed in bold.

    Raises:
        InvalidInput: there is no figure.
    """
    methods = list(dict.fromkeys(method for figures in groups.values() for method in figures))
    if not methods:
        raise InvalidInput("There is nothing to draw: received no finished run.")
    figure = Figure(figsize=(7.5, 1.6 + 0.16 * len(methods) * (1 + len(groups))), dpi=150, layout="constrained")
    axes = FigureCanvasAgg(figure).figure.subplots()
    thickness = 0.84 / len(groups)
    for index, (series, figures) in enumerate(groups.items()):
        places = np.array([methods.index(method) for method in figures]) + (index - (len(groups) - 1) / 2) * thickness
        values = np.array([[bar.estimate, *bar.ends()] for bar in figures.values()]) * 100
        errors = np.clip([values[:, 0] - values[:, 1], values[:, 2] - values[:, 0]], 0, None)
        style = {"color": _COLORS[index % len(_COLORS)], "error_kw": {"lw": 0.9, "capsize": 1.5, "alpha": 0.8}}
        axes.barh(places, values[:, 0], height=0.92 * thickness, xerr=errors, label=series, **style)
    axes.set_xlim(left=0.0)  # the length of a bar is its value
    axes.set_yticks(range(len(methods)), methods)
    for label in axes.get_yticklabels():
        label.set_fontweight("bold" if label.get_text() in highlighted else "normal")
    axes.invert_yaxis()
    axes.set_xlabel(f"test {metric} (%), 95 % interval")
    axes.set_title(title, fontsize="medium")
    axes.grid(axis="x", alpha=0.3)
    axes.set_axisbelow(True)
    axes.spines[["top", "right"]].set_visible(False)
    figure.legend(loc="outside upper right", frameon=False, fontsize="small", ncols=len(groups))
    write_atomically(path, lambda file: figure.savefig(file, format="png"))
