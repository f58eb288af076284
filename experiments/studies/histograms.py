"""Histograms, one panel per series on a common scale."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence

import numpy as np

from common.errors import InvalidInput
from common.files import write_atomically

_COLORS = {True: "#0072B2", False: "#B8C4CE"}  # whole, cut off


def stacked_histograms(
    series: Mapping[str, Mapping[str, Sequence[float]]],
    path: str | os.PathLike,
    *,
    x_label: str,
    y_label: str,
    title: str = "",
    num_bins: int = 12,
) -> None:
    """Draw a panel per series with stacked kinds of values (atomic PNG).

    Args:
        series: by name of the series, values by their kind (at most two kinds, the same in all series).
        path: of the PNG.
        x_label, y_label: of the axes.
        title: above the panels.
        num_bins: common to all panels.

    Raises:
        InvalidInput: there is no value.
    """
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure
    from matplotlib.ticker import MaxNLocator

    values = [value for kinds in series.values() for of_kind in kinds.values() for value in of_kind]
    if not values:
        raise InvalidInput("There is nothing to draw: received no finished run with a recorded value.")
    bins = np.linspace(0, max(values), num_bins + 1)
    figure = Figure(figsize=(7, 1.1 + 1.5 * len(series)), dpi=150, layout="constrained")
    panels = FigureCanvasAgg(figure).figure.subplots(len(series), 1, sharex=True, squeeze=False)[:, 0]
    for panel, (name, kinds) in zip(panels, series.items()):
        colors = [_COLORS[index == 0] for index in range(len(kinds))]
        panel.hist(list(kinds.values()), bins=bins, stacked=True, color=colors, label=list(kinds), edgecolor="white")
        panel.set_title(name, fontsize="small", loc="left")
        panel.set_ylabel(y_label)
        panel.yaxis.set_major_locator(MaxNLocator(integer=True, nbins=4))
        panel.spines[["top", "right"]].set_visible(False)
    panels[0].legend(frameon=False, fontsize="small")
    panels[-1].set_xlabel(x_label)
    figure.suptitle(title, fontsize="medium")
    write_atomically(path, lambda file: figure.savefig(file, format="png"))
