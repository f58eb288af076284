"""Test MAP@R of each run against the share of pooling weight on its target."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from common.files import write_atomically

_STYLES = (("#0072B2", "o"), ("#D55E00", "s"), ("#009E73", "^"), ("#CC79A7", "D"))


class SelectionPoint(NamedTuple):
    """One run.

    Attributes:
        weight_on_own: the mean pooling weight on the tokens of a sample's class, in [0, 1].
        map_at_r: test MAP@R, in [0, 1].
    """

    weight_on_own: float
    map_at_r: float


def selection_plot(
    points: Mapping[str, Sequence[SelectionPoint]], path: str | os.PathLike, *, threshold: float, title: str = ""
) -> None:
    """Draw one mark per run and the line that separates selecting runs.

    Args:
        points: runs by method, at most four methods.
        path: where the PNG goes.
        threshold: the weight from which a run selects, in [0, 1].
        title: above the axes.
    """
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(6.4, 4.4), dpi=150, layout="constrained")
    axes = FigureCanvasAgg(figure).figure.subplots()
    for (method, trainings), (color, marker) in zip(points.items(), _STYLES):
        weights, scores = zip(*((100 * weight, 100 * score) for weight, score in trainings))
        name = f"{method} ({len(trainings)} run{'s' if len(trainings) > 1 else ''})"
        axes.scatter(weights, scores, s=36, color=color, marker=marker, alpha=0.7, linewidths=0, label=name)
    axes.axvline(100 * threshold, color="0.6", linewidth=1, linestyle="--")
    axes.text(100 * threshold, 1, " selects", color="0.4", size=8)
    axes.set(xlim=(0, 102), ylim=(0, 102), xlabel="pooling weight on own tokens (%)", ylabel="test MAP@R (%)")
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(frameon=False, fontsize="small", loc="upper left")
    axes.set_title(title, fontsize="medium")
    write_atomically(path, lambda file: figure.savefig(file, format="png"))
