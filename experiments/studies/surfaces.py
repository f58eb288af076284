"""Regression surface over two hyper-parameters, with the fitted points."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from common.files import write_atomically


class SurfaceGrid(NamedTuple):
    """Values on a grid: `x` [columns], `y` [rows], `values` [rows, columns], fractions."""

    x: np.ndarray
    y: np.ndarray
    values: np.ndarray


def regression_surface(
    surface: SurfaceGrid,
    points: Sequence[tuple[float, float, float]],
    path: str | os.PathLike,
    *,
    labels: tuple[str, str, str],
    title: str = "",
) -> None:
    """Draw filled contours of the surface and points, numbered in order (atomic PNG).

    Args:
        surface: the regression's mean.
        points: (x, y, measured value as a fraction); a point is coloured by its own value, the best has a star.
        path: of the PNG.
        labels: of the x axis, the y axis and the colours; values are drawn in percent.
        title: above the axes.
    """
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure
    from matplotlib.patheffects import withStroke

    places, measured = np.array([point[:2] for point in points]), 100 * np.array([point[2] for point in points])
    values = 100 * surface.values
    lowest, highest = min(values.min(), measured.min()), max(values.max(), measured.max())
    if highest - lowest < 1e-9:
        lowest, highest = lowest - 0.5, highest + 0.5
    figure = Figure(figsize=(7, 4.6), dpi=150, layout="constrained")
    axes = FigureCanvasAgg(figure).figure.subplots()
    levels = np.linspace(lowest, highest, 17)
    filled = axes.contourf(surface.x, surface.y, values, levels=levels, cmap="viridis")
    style: dict[str, Any] = {"c": measured, "cmap": "viridis", "vmin": lowest, "vmax": highest, "edgecolors": "white"}
    style["label"] = "measured, numbered in their order"
    axes.scatter(places[:, 0], places[:, 1], s=90, zorder=3, clip_on=False, **style)
    best = int(measured.argmax())
    axes.scatter(
        places[best : best + 1, 0],
        places[best : best + 1, 1],
        marker="*",
        s=420,
        facecolors="none",
        edgecolors="#D55E00",
        zorder=4,
        clip_on=False,
        label="best of these",
    )
    middle = np.array([np.mean(axes.get_xlim()), np.mean(axes.get_ylim())])
    for number, place in enumerate(places, start=1):
        offset = np.where(place > middle, -6, 6)  # inwards, so that no number leaves the axes
        sides: dict[str, Any] = {"ha": "left" if offset[0] > 0 else "right", "va": "bottom" if offset[1] > 0 else "top"}
        label = axes.annotate(
            f"{number}", place, xytext=(offset[0], offset[1]), textcoords="offset points", fontsize=8, **sides
        )
        label.set_path_effects([withStroke(linewidth=2, foreground="white")])  # readable on and beside the surface
    figure.colorbar(filled, ax=axes, label=labels[2], format="%.2f")
    axes.set_xlabel(labels[0])
    axes.set_ylabel(labels[1])
    axes.set_title(title, fontsize="medium")
    figure.legend(loc="outside lower center", frameon=False, fontsize="small", ncols=2, markerscale=0.7)
    write_atomically(path, lambda file: figure.savefig(file, format="png"))
