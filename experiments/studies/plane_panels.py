"""Embeddings in the plane with class representatives, a panel per state of training."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from experiments.reports.plots import picture

if TYPE_CHECKING:
    from matplotlib.lines import Line2D

_NUM_COLUMNS = 3
_LIMIT = 1.12  # norms are clipped to 1


@dataclass(frozen=True)
class PlanePanel:
    """State of the training."""

    title: str
    embeddings: np.ndarray  # `[examples, 2]`
    labels: np.ndarray  # `[examples]`
    converged: np.ndarray | None = None  # trained representatives, as boxes, `[classes, representatives, 2]`
    chosen: np.ndarray | None = None  # the next problem's first ones, as circles, likewise


def plane_panels(
    panels: Sequence[PlanePanel],
    path: str | os.PathLike,
    *,
    class_names: Sequence[str],
    title: str = "",
    unit_circle: bool = True,
) -> None:
    """Draw the panels, three per row, to one scale (atomic PNG).

    The unit circle is the border of the disc that holds clipped embeddings, with its axes.
    """
    from matplotlib import colormaps

    num_rows = -(-len(panels) // _NUM_COLUMNS)
    colormap = colormaps["tab10" if len(class_names) <= 10 else "turbo"]
    colors = colormap(np.arange(len(class_names)) if len(class_names) <= 10 else np.linspace(0, 1, len(class_names)))
    size, columns = (3.6 * _NUM_COLUMNS, 3.75 * num_rows + 1.1), _NUM_COLUMNS
    with picture(path, *size, rows=num_rows, columns=columns, dpi=130, is_framed=True) as (figure, places):
        for panel, place in zip(panels, places):
            _draw(place, panel, colors, unit_circle)
        for place in places[len(panels) :]:
            place.set_axis_off()
        figure.suptitle(title, fontsize=11)
        figure.legend(
            handles=_legend(panels, colors, class_names), loc="outside lower center", ncols=7, frameon=False, fontsize=8
        )


def _draw(place, panel: PlanePanel, colors: np.ndarray, unit_circle: bool) -> None:
    order = np.random.default_rng(0).permutation(len(panel.labels))  # so that no class lies above all others
    points, labels = np.asarray(panel.embeddings)[order], np.asarray(panel.labels)[order]
    if unit_circle:
        angles = np.linspace(0, 2 * np.pi, 200)
        place.plot(np.cos(angles), np.sin(angles), color="0.75", linewidth=0.8, zorder=0)
    place.scatter(*points.T, s=5, c=colors[labels], alpha=0.35, linewidths=0, zorder=1)
    for representatives, style in ((panel.converged, _BOXES), (panel.chosen, _CIRCLES)):
        if representatives is not None:
            for label, members in enumerate(representatives):
                place.scatter(*members.T, color=colors[label], **style)
    place.set_title(panel.title, fontsize=9)
    ticks = (-1, 0, 1) if unit_circle else ()
    place.set(xlim=(-_LIMIT, _LIMIT), ylim=(-_LIMIT, _LIMIT), aspect="equal", xticks=ticks, yticks=ticks)
    place.tick_params(labelsize=7, color="0.6")
    place.spines[:].set_color("0.8")


_BOXES = {"marker": "s", "s": 46, "edgecolors": "black", "linewidths": 1.1, "zorder": 3}
_CIRCLES = {"marker": "o", "s": 34, "edgecolors": "black", "linewidths": 0.9, "zorder": 4}


def _legend(panels: Sequence[PlanePanel], colors, class_names: Sequence[str]) -> list[Line2D]:
    from matplotlib.lines import Line2D

    def entry(label, marker, face, size, edge="none"):
        style = {"markerfacecolor": face, "markeredgecolor": edge, "markersize": size}
        return Line2D([], [], linestyle="none", marker=marker, label=label, **style)

    classes = [entry(name, "o", colors[label], 5) for label, name in enumerate(class_names)]
    boxes = [entry("converged", "s", "0.8", 7, "black")] if any(p.converged is not None for p in panels) else []
    circles = [entry("next", "o", "0.8", 6, "black")] if any(p.chosen is not None for p in panels) else []
    return [*classes, *boxes, *circles, entry("test example", "o", "0.6", 3)]
