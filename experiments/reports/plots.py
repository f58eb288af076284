"""Plots of runs: validation curves, bars and sweeps."""

from __future__ import annotations

import contextlib
import itertools
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from common.errors import InvalidInput
from common.files import write_atomically
from experiments.reports.intervals import BOTH, CLASSES, FAMILIES, SAME_SPLITS, TRAININGS, Interval

# Colours that stay apart for colour-blind readers and on paper (Okabe and Ito, "Color universal design", 2008).
_COLORS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
_BAR_COLORS = ("#0072B2", "#E69F00", "#009E73", "#CC79A7")
_LINE_STYLES = ("-", "--", ":", "-.")
_MARKERS = "osD^vPX"
# Bars whose interval leaves something out look unfinished: hatched, with a dotted line.
_BAR_STYLES: Mapping[str, Mapping[str, object]] = {
    BOTH: {"alpha": 1.0, "hatch": None},
    SAME_SPLITS: {"alpha": 0.8, "hatch": None},
    CLASSES: {"alpha": 0.55, "hatch": "////"},
    TRAININGS: {"alpha": 0.55, "hatch": "...."},
}
_BAR_LINES = {BOTH: "-", SAME_SPLITS: "-", CLASSES: ":", TRAININGS: ":"}


@contextlib.contextmanager
def picture(
    path: str | os.PathLike,
    width: float,
    height: float,
    *,
    rows: int = 1,
    columns: int = 1,
    dpi: int = 150,
    is_framed: bool = False,
    sharex: bool = False,
) -> Iterator[tuple[Any, Any]]:
    """Yield a figure (size in inches) and its panels; write a PNG."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, height), dpi=dpi, layout="constrained")
    panels = figure.subplots(rows, columns, squeeze=False, sharex=sharex).ravel()
    for panel in panels:
        panel.spines[["top", "right"]].set_visible(is_framed)
    yield figure, panels
    write_atomically(path, lambda file: figure.savefig(file, format="png"))


@dataclass(frozen=True)
class Curve:
    """The validation metric of one run over its training steps."""

    method: str  # group and colour of the run
    steps: Sequence[int] | np.ndarray  # `[evaluations]`, increasing
    values: Sequence[float] | np.ndarray  # the metric at these steps, a fraction `[evaluations]`


def validation_curves(
    series: Sequence[Curve], path: str | os.PathLike, *, metric: str = "MAP@R", title: str = ""
) -> None:
    """Draw each run thin and each method's mean thick, as a PNG.

    A run that stopped early stays in its method's mean with its last value; the mean would jump otherwise. Runs without
    an evaluation are skipped.
    """
    series = [curve for curve in series if len(curve.steps)]
    if not series:
        raise InvalidInput("There is no validation curve to draw: received no run with an evaluation in metrics.jsonl.")
    methods = list(dict.fromkeys(curve.method for curve in series))
    with picture(path, 8, 4.8) as (figure, (axes,)):
        for position, method in enumerate(methods):
            runs = [curve for curve in series if curve.method == method]
            style: dict[str, Any] = {
                "color": _COLORS[position % len(_COLORS)],
                "linestyle": _LINE_STYLES[position // len(_COLORS) % len(_LINE_STYLES)],
            }
            for curve in runs:
                axes.plot(curve.steps, 100 * np.asarray(curve.values), linewidth=0.8, alpha=0.45, **style)
            steps, means = mean_curve(runs)
            label = f"{method} (mean of {len(runs)} runs)" if len(runs) > 1 else f"{method} (1 run)"
            axes.plot(steps, 100 * means, linewidth=2.4, label=label, marker="o" if len(steps) == 1 else None, **style)
        axes.set_xlabel("training steps")
        axes.set_ylabel(f"validation {metric} (%)")
        axes.set_title(title)
        axes.grid(alpha=0.3)
        axes.margins(x=0.02)
        axes.legend(loc="best", frameon=False, fontsize="small", ncols=1 if len(methods) <= 8 else 2)


def class_gains(gains: Mapping[str, np.ndarray], path: str | os.PathLike, *, baseline: str, metric: str) -> None:
    """Draw the gain of each method in each test class, as a PNG.

    Args:
        gains: by method, a fraction of each class `[classes]`, in the order of labels.
        path: of the PNG.
        baseline: the method that is subtracted.
        metric: its name.
    """
    with picture(path, 8, 4) as (_, (axes,)):
        for color, (method, values) in zip(itertools.cycle(_COLORS), gains.items()):
            label = f"{method}: {(values > 0).sum()} of {len(values)} classes gain"
            axes.plot(100 * values, ".", color=color, label=label)
        axes.axhline(0, color="0.4", linewidth=0.8)
        axes.set_xlabel("test classes, in the order of labels")
        axes.set_ylabel(f"{metric} minus that of {baseline} (%)")
        axes.legend(loc="best", frameon=False, fontsize="small")


def mean_curve(runs: Sequence[Curve]) -> tuple[np.ndarray, np.ndarray]:
    """Average runs on the union of their steps, interpolating between evaluations.

    Returns:
        Steps and means `[steps]`, from the first step that all runs have reached; beyond its end a run counts with its
        last value.
    """
    steps = np.unique(np.concatenate([np.asarray(curve.steps) for curve in runs]))
    steps = steps[steps >= max(curve.steps[0] for curve in runs)]
    return steps, np.mean([np.interp(steps, curve.steps, curve.values) for curve in runs], axis=0)


def interval_bars(
    groups: Mapping[str, Mapping[str, Interval]],
    path: str | os.PathLike,
    *,
    title: str = "",
    untrained: float | None = None,
) -> None:
    """Draw a bar with interval per method and series, as a PNG.

    Bars are hatched, with dotted intervals, unless the interval covers classes and runs. The legend names what the
    intervals of each series cover. A line marks the figure before training, if given.

    Args:
        groups: by series (a loss), the figures by method (a pooling), as fractions.
    """
    methods = list(dict.fromkeys(method for figures in groups.values() for method in figures))
    if not methods:
        raise InvalidInput("There is nothing to draw: received no finished run.")
    with picture(path, 7.5, 1.9 + 0.16 * len(methods) * (1 + len(groups))) as (figure, (axes,)):
        thickness = 0.84 / len(groups)
        for index, (series, figures) in enumerate(groups.items()):
            for kind in dict.fromkeys(bar.kind for bar in figures.values()):
                bars = {method: bar for method, bar in figures.items() if bar.kind == kind}
                places = (
                    np.array([methods.index(method) for method in bars]) + (index - (len(groups) - 1) / 2) * thickness
                )
                label = f"{series}, interval: {kind}"
                _draw_bars(
                    axes, places, list(bars.values()), 0.92 * thickness, _BAR_COLORS[index % len(_BAR_COLORS)], label
                )
        if untrained is not None:
            axes.axvline(100 * untrained, color="black", linestyle="--", linewidth=1, label="before training")
        axes.set_xlim(left=0.0)  # the length of a bar is its value
        axes.set_yticks(range(len(methods)), methods)
        axes.invert_yaxis()
        kinds = {bar.kind for figures in groups.values() for bar in figures.values()}
        of_kind = f"for new {kinds.pop()}" if len(kinds) == 1 else "(see legend)"
        axes.set_xlabel(f"test MAP@R (%), 95 % interval {of_kind}")
        axes.set_title(title, fontsize="medium")
        axes.grid(axis="x", alpha=0.3)
        axes.set_axisbelow(True)
        figure.legend(
            loc="outside lower center",
            frameon=False,
            fontsize="small",
            ncols=min(2, len(groups) + (untrained is not None)),
        )


def _draw_bars(axes, places: np.ndarray, bars: Sequence[Interval], height: float, color: str, label: str) -> None:
    """Draw the bars of one series that share a kind of interval."""
    kind = bars[0].kind.removeprefix(FAMILIES)
    values = np.array([[bar.estimate, *bar.ends()] for bar in bars]) * 100
    errors = np.clip([values[:, 0] - values[:, 1], values[:, 2] - values[:, 0]], 0, None)
    axes.barh(places, values[:, 0], height=height, color=color, edgecolor="white", label=label, **_BAR_STYLES[kind])
    line = {"fmt": "none", "ecolor": "black", "elinewidth": 1.0, "capsize": 1.5}
    (_, _, whiskers) = axes.errorbar(values[:, 0], places, xerr=errors, **line)
    for whisker in whiskers:
        whisker.set_linestyle(_BAR_LINES[kind])


class SweepValue(NamedTuple):
    """A point of a line: hyper-parameter, metric (a fraction), and optional range or interval.

    Without `x` it is a horizontal line. `kind` names the bar ("range of runs", "95 % interval, classes only").
    """

    x: float | None
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
    effects: Mapping[str, Sequence[SweepValue]] | None = None,
    title: str = "",
    logarithmic: bool = False,
) -> None:
    """Draw a line with error bars per series, in percent, as a PNG.

    Lines are dotted if runs have no part in the interval. Series without points are skipped.

    Args:
        effects: differences of some of the series from their baselines, in a panel below.
        logarithmic: whether the hyper-parameter doubles from point to point.
    """
    series = {name: points for name, points in series.items() if points}
    if not series:
        raise InvalidInput("There is nothing to draw: received no finished run.")
    panels = [series, effects] if effects else [series]
    ticks = sorted({point.x for points in series.values() for point in points if point.x is not None})
    with picture(path, 7, 1.2 + 3.2 * len(panels), rows=len(panels), sharex=True) as (_, drawn):
        for axes, of_panel in zip(drawn, panels):
            _draw_sweep(axes, of_panel, list(series), ticks, logarithmic)
        drawn[-1].set_xlabel(x_label)
        drawn[0].set_ylabel(y_label)
        drawn[0].set_title(title, fontsize="medium")
        if effects:
            drawn[1].get_legend().remove()
            drawn[1].axhline(0, color="0.5", linewidth=0.8)
            drawn[1].set_ylabel("minus baseline (points)")


def _draw_sweep(
    axes, series: Mapping[str, Sequence[SweepValue]], names: Sequence[str], ticks: Sequence[float], logarithmic: bool
) -> None:
    """Draw the lines of one panel, coloured by their place in `names`."""
    from matplotlib.ticker import NullLocator

    for name, points in series.items():
        index = names.index(name)
        color = _COLORS[index % len(_COLORS)]
        known = sorted(point for point in points if point.x is not None)
        for constant in (point for point in points if point.x is None):
            axes.axhline(100 * constant.value, color=color, linestyle="--", linewidth=1.4, label=name)
            axes.axhspan(*(100 * end for end in _bounds(constant)), color=color, alpha=0.12, linewidth=0)
        if known:
            aside = 0.01 * (index - (len(names) - 1) / 2)  # bars stand side by side
            places = [
                p.x * (ticks[-1] / ticks[0]) ** aside if logarithmic else p.x + aside * np.ptp(ticks) for p in known
            ]
            style = {"color": color, "marker": _MARKERS[index % len(_MARKERS)], "label": name}
            _draw_line_with_bars(axes, places, known, **style)
    if logarithmic:
        axes.set_xscale("log", base=2)
        axes.xaxis.set_minor_locator(NullLocator())
    axes.set_xticks(ticks, [f"{tick:g}" for tick in ticks])
    axes.grid(alpha=0.3)
    kinds = sorted({point.kind for points in series.values() for point in points if point.kind})
    told = [f"{'dotted' if kind.endswith(CLASSES) else 'bars'}: {kind}" for kind in kinds]
    axes.legend(frameon=False, fontsize="small", title="\n".join(told) or None, title_fontsize="small")


def _draw_line_with_bars(axes, places: Sequence[float], points: Sequence[SweepValue], **style: Any) -> None:
    values = 100 * np.array([point.value for point in points])
    bounds = 100 * np.array([_bounds(point) for point in points]).T
    errors = np.clip([values - bounds[0], bounds[1] - values], 0, None)
    (_, _, bars) = axes.errorbar(places, values, yerr=errors, linewidth=1.8, capsize=3, **style)
    for bar in bars:
        bar.set_linestyle([":" if point.kind.endswith(CLASSES) else "-" for point in points])


def _bounds(point: SweepValue) -> tuple[float, float]:
    return (point.value if point.low is None else point.low, point.value if point.high is None else point.high)
