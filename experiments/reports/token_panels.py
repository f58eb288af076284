"""Tokens in the plane, the samples pooled from them, and overlaps of class hulls."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from common.files import write_atomically
from experiments.reports.prototype_panels import hull_order


@dataclass(frozen=True)
class TokenPanel:
    """One way of pooling.

    Args:
        title: above the panel.
        tokens: `[tokens, 2]`.
        token_labels: the class that owns a token, -1 for one that all share, `[tokens]`.
        samples: `[samples, 2]`.
        labels: of the samples, from 0, `[samples]`.
    """

    title: str
    tokens: np.ndarray
    token_labels: np.ndarray
    samples: np.ndarray
    labels: np.ndarray


def token_panels(panels: Sequence[TokenPanel], path: str | os.PathLike, *, title: str = "") -> None:
    """Draw samples, class hulls, own tokens (squares) and shared ones (crosses).

    Args:
        panels: at least one.
        path: where the PNG goes.
        title: above the panels.
    """
    from matplotlib import colormaps
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(4.9 * len(panels), 5.6), dpi=120, layout="constrained")
    places = FigureCanvasAgg(figure).figure.subplots(1, len(panels), squeeze=False)[0]
    for panel, place in zip(panels, places):
        colors = colormaps["turbo"](np.linspace(0.02, 0.98, int(panel.labels.max()) + 1))
        for label, color in enumerate(colors):
            members = panel.samples[panel.labels == label]
            place.fill(*members[hull_order(members)].T, color=color, alpha=0.3, linewidth=0)
            place.scatter(*members.T, s=5, color=color, linewidths=0)
        own = panel.token_labels >= 0
        style = {"s": 24, "marker": "s", "edgecolors": "black", "linewidths": 0.6, "alpha": 0.8}
        place.scatter(*panel.tokens[own].T, c=colors[panel.token_labels[own]], **style)
        place.scatter(*panel.tokens[~own].T, s=70, marker="x", color="black", linewidths=2.2, zorder=4)
        place.set_title(panel.title, fontsize="small")
        place.set_aspect("equal", adjustable="datalim")
        place.spines[["top", "right"]].set_visible(False)
    figure.suptitle(title, fontsize="medium")
    figure.supxlabel(
        "squares: tokens of a class; crosses: tokens of all; dots: samples, in their classes' hulls", size=8
    )
    write_atomically(path, lambda file: figure.savefig(file, format="png"))


def share_in_other_hulls(samples: np.ndarray, labels: np.ndarray) -> float:
    """Return the share of samples `[samples, 2]` inside another class's hull."""
    from matplotlib.path import Path

    inside = np.zeros(len(samples), bool)
    for label in np.unique(labels):
        corners = samples[labels == label]
        others = labels != label
        inside[others] |= Path(corners[hull_order(corners)]).contains_points(samples[others])
    return float(inside.mean())
