"""Plots of training: validation retrieval per run and on average."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from common.errors import InvalidInput
from common.files import write_atomically

# Colours that stay apart for colour-blind readers and on paper (Okabe and Ito, "Color universal design", 2008).
_COLORS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
_LINE_STYLES = ("-", "--", ":", "-.")


@dataclass(frozen=True)
class Curve:
    """The validation metric of one run over its training steps.

    Args:
        method: group and colour of the run.
        steps: `[evaluations]`, increasing.
        values: the metric at these steps, a fraction `[evaluations]`.
    """

    method: str
    steps: Sequence[int] | np.ndarray
    values: Sequence[float] | np.ndarray


def validation_curves(
    series: Sequence[Curve], path: str | os.PathLike, *, metric: str = "MAP@R", title: str = ""
) -> None:
    """Draw each run thin and each method's mean thick, as a PNG.

    A run that stopped early stays in its method's mean with its last value; the mean would jump otherwise. The file is
    written atomically.

    Args:
        series: the runs; runs without an evaluation are passed over.
        path: where the PNG goes.
        metric: its name, for the axis.
        title: above the axes.

    Raises:
        InvalidInput: when no run has an evaluation.
    """
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    series = [curve for curve in series if len(curve.steps)]
    if not series:
        raise InvalidInput("There is no validation curve to draw: received no run with an evaluation in metrics.jsonl.")
    methods = list(dict.fromkeys(curve.method for curve in series))
    figure = Figure(figsize=(8, 4.8), dpi=150, layout="constrained")
    axes = FigureCanvasAgg(figure).figure.subplots()
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
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(loc="best", frameon=False, fontsize="small", ncols=1 if len(methods) <= 8 else 2)
    write_atomically(path, lambda file: figure.savefig(file, format="png"))


def mean_curve(runs: Sequence[Curve]) -> tuple[np.ndarray, np.ndarray]:
    """Average runs on the union of their steps, interpolating between evaluations.

    Args:
        runs: at least one, each with at least one evaluation.

    Returns:
        Steps and means `[steps]`, from the first step that all runs have reached; beyond its end a run counts with its
        last value.
    """
    steps = np.unique(np.concatenate([np.asarray(curve.steps) for curve in runs]))
    steps = steps[steps >= max(curve.steps[0] for curve in runs)]
    return steps, np.mean([np.interp(steps, curve.steps, curve.values) for curve in runs], axis=0)
