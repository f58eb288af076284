"""Lines over one hyper-parameter, one per series, with intervals."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from common.errors import InvalidInput
from common.files import write_atomically
from experiments.reports.intervals import CLASSES

_COLORS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")  # Okabe and Ito, 2008
_MARKERS = "osD^vPX"


class SweepValue(NamedTuple):
    """A point of a line: hyper-parameter, metric (a fraction), and optional range or interval.

    `kind` names the bar ("range of runs", "95 % interval, classes only").
    """

    x: float
    value: float
    low: float | None = None
    high: float | None = None
    kind: str = ""


def sweep_lines(
    series: Mapping[str, Sequence[SweepValue]],
    path: str | os.PathLike,
    *,
    x_label: str,
    y_label: str,
    title: str = "",
    logarithmic: bool = False,
) -> None:
    """Draw a line with error bars per series, as a PNG, atomically.

    Lines are dotted if runs have no part in the interval.

    Args:
        series: points by name of the series; series without points are passed over.
        path: where the PNG goes.
        x_label, y_label: of the axes; values are drawn in percent.
        title: above the axes.
        logarithmic: whether the hyper-parameter doubles from point to point.

    Raises:
        InvalidInput: there is no point.
    """
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure
    from matplotlib.ticker import NullLocator

    series = {name: sorted(points) for name, points in series.items() if points}
    if not series:
        raise InvalidInput("There is nothing to draw: received no finished run.")
    figure = Figure(figsize=(7, 4.4), dpi=150, layout="constrained")
    axes = FigureCanvasAgg(figure).figure.subplots()
    for index, (name, points) in enumerate(series.items()):
        places = np.array([point.x for point in points])
        values = 100 * np.array([point.value for point in points])
        bounds = 100 * np.array([_bounds(point) for point in points]).T
        errors = np.clip([values - bounds[0], bounds[1] - values], 0, None)
        style: dict[str, Any] = {"color": _COLORS[index % len(_COLORS)], "marker": _MARKERS[index % len(_MARKERS)]}
        (_, _, bars) = axes.errorbar(places, values, yerr=errors, label=name, linewidth=1.8, capsize=3, **style)
        for bar in bars:
            bar.set_linestyle([":" if point.kind.endswith(CLASSES) else "-" for point in points])
    ticks = sorted({point.x for points in series.values() for point in points})
    if logarithmic:
        axes.set_xscale("log", base=2)
        axes.xaxis.set_minor_locator(NullLocator())
    axes.set_xticks(ticks, [f"{tick:g}" for tick in ticks])
    axes.set_xlabel(x_label)
    axes.set_ylabel(y_label)
    axes.set_title(title, fontsize="medium")
    axes.grid(alpha=0.3)
    axes.spines[["top", "right"]].set_visible(False)
    kinds = sorted({point.kind for points in series.values() for point in points if point.kind})
    told = [f"{'dotted' if kind.endswith(CLASSES) else 'bars'}: {kind}" for kind in kinds]
    axes.legend(frameon=False, fontsize="small", title="\n".join(told) or None, title_fontsize="small")
    write_atomically(path, lambda file: figure.savefig(file, format="png"))


def _bounds(point: SweepValue) -> tuple[float, float]:
    return (point.value if point.low is None else point.low, point.value if point.high is None else point.high)
