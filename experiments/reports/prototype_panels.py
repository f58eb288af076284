"""Local features in the plane, their prototypes, and images as combinations of prototypes."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from common.files import write_atomically

_NUM_IMAGES = 3
_ACTIVE_SHARE = 0.01  # of a class' features, for a prototype to be active in it


class Combination(Protocol):
    """The output of `gsp_dml.prototype_combination`."""

    @property
    def nearest(self) -> np.ndarray:
        """The nearest prototype of each feature, `[images, positions]`."""

    @property
    def weights(self) -> np.ndarray:
        """The share of each prototype, `[images, prototypes]`."""

    @property
    def averages(self) -> np.ndarray:
        """Average pooling, `[images, 2]`."""

    @property
    def combinations(self) -> np.ndarray:
        """Combinations of prototypes, `[images, 2]`."""

    @property
    def errors(self) -> np.ndarray:
        """Their distance from averages, `[images]`."""

    @property
    def covering_radius(self) -> float:
        """The largest distance of a feature from its prototype."""


@dataclass(frozen=True)
class PrototypePlane:
    """The data of the three pictures.

    Args:
        local: local features `[images, positions, 2]` in the unit ball.
        labels: of the images, from 0, `[images]`.
        prototypes: `[prototypes, 2]`.
        combination: with `nearest`, `weights`, `averages`, `combinations`, `errors`, `mean_distances` and
            `covering_radius`, as `gsp_dml.prototype_combination` gives them.
        class_names: of each label.
    """

    local: np.ndarray
    labels: np.ndarray
    prototypes: np.ndarray
    combination: Combination
    class_names: Sequence[str]


def partition_panel(plane: PrototypePlane, path: str | os.PathLike, *, title: str = "") -> None:
    """Draw local features coloured by prototype, and the covering radius, as PNG."""
    from matplotlib import colormaps
    from matplotlib.lines import Line2D
    from matplotlib.patches import Circle

    figure, (axes,) = _figure(1, title)
    points, nearest = plane.local.reshape(-1, 2), plane.combination.nearest.ravel()
    order = np.random.default_rng(0).permutation(len(plane.prototypes))  # neighbours get different colours
    axes.scatter(*points.T, s=5, c=colormaps["turbo"](order[nearest] / len(order)), linewidths=0, alpha=0.6)
    axes.scatter(*plane.prototypes.T, s=26, marker="s", c="white", edgecolors="black", linewidths=1, label="prototypes")
    distances = np.linalg.norm(points - plane.prototypes[nearest], axis=1)
    center = plane.prototypes[nearest[distances.argmax()]]
    radius = plane.combination.covering_radius
    axes.add_patch(Circle(center, radius, fill=False, color="black", linestyle="--"))
    squares = axes.get_legend_handles_labels()[0]
    circle = Line2D([], [], color="black", linestyle="--", label=f"covering radius {radius:.3f}, where it is reached")
    axes.legend(handles=[*squares, circle], frameon=False, fontsize="small", loc="best")
    _save(figure, path)


def hull_panel(plane: PrototypePlane, path: str | os.PathLike, *, title: str = "") -> None:
    """Draw image averages and each class's active hull, as a PNG.

    Classes with the same hull share it and its colour.
    """
    from matplotlib import colormaps

    figure, (axes,) = _figure(1, title)
    for number, (corners, labels) in enumerate(shared_hulls(plane).items()):
        members, color = np.isin(plane.labels, labels), colormaps["tab10"](number % 10)
        outline = plane.prototypes[[*corners]]
        axes.fill(*outline.T, color=color, alpha=0.12, linewidth=0)
        axes.plot(*np.vstack([outline, outline[:1]]).T, color=color, linewidth=1)
        names = "\n".join(plane.class_names[label] for label in labels)
        axes.scatter(*plane.combination.averages[members].T, s=10, color=color, linewidths=0, label=names)
    axes.scatter(*plane.prototypes.T, s=20, marker="s", c="white", edgecolors="black", linewidths=0.9, zorder=3)
    figure.legend(loc="outside right upper", frameon=False, fontsize="small")
    _save(figure, path)


def combination_panels(plane: PrototypePlane, path: str | os.PathLike, *, title: str = "") -> None:
    """Draw three images of different classes: features, weighted prototypes, average, combination."""
    chosen = [int(np.flatnonzero(plane.labels == label)[0]) for label in np.unique(plane.labels)[:_NUM_IMAGES]]
    figure, panels = _figure(len(chosen), title)
    for axes, image in zip(panels, chosen):
        found, weights = plane.combination, plane.combination.weights[image]
        used = weights > 0
        axes.scatter(*plane.prototypes[~used].T, s=10, marker="s", color="0.85")
        axes.scatter(*plane.local[image].T, s=6, color="0.5", label="local features")
        axes.scatter(
            *plane.prototypes[used].T,
            s=15 + 500 * weights[used],
            marker="s",
            color="#0072B2",
            alpha=0.5,
            label="prototypes, by weight",
        )
        axes.scatter(*found.averages[image], s=90, marker="x", color="black", linewidths=2, zorder=3, label="GAP")
        axes.scatter(
            *found.combinations[image],
            s=90,
            marker="o",
            facecolors="none",
            edgecolors="#D55E00",
            linewidths=2,
            zorder=3,
            label="combination (PCC)",
        )
        name = plane.class_names[plane.labels[image]]
        errors = f"error {found.errors[image]:.3f}, covering radius {found.covering_radius:.3f}"
        axes.set_title(f"{name}: {errors}", fontsize="small")
    figure.legend(*panels[0].get_legend_handles_labels(), loc="outside lower center", frameon=False, ncols=4)
    _save(figure, path)


def shared_hulls(plane: PrototypePlane) -> dict[tuple[int, ...], list[int]]:
    """Group class labels by their active hull (ordered corner indices)."""
    found: dict[tuple[int, ...], list[int]] = {}
    for label in range(len(plane.class_names)):
        shares = plane.combination.weights[plane.labels == label].mean(axis=0)
        active = np.flatnonzero(shares >= _ACTIVE_SHARE)
        corners = active[hull_order(plane.prototypes[active])]
        corners = np.roll(corners, -int(corners.argmin()))  # the same hull begins with the same corner
        found.setdefault(tuple(map(int, corners)), []).append(label)
    return found


def hull_order(points: np.ndarray) -> np.ndarray:
    """Order the convex hull's corner indices; all points without an area."""
    from scipy.spatial import ConvexHull, QhullError

    try:
        return ConvexHull(points).vertices
    except (QhullError, ValueError):
        return np.arange(len(points))


def _figure(num_panels: int, title: str):
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(4.6 * num_panels + (3.0 if num_panels == 1 else 0), 5.4), dpi=130, layout="constrained")
    panels = FigureCanvasAgg(figure).figure.subplots(1, num_panels, squeeze=False)[0]
    for panel in panels:
        panel.set_aspect("equal", adjustable="datalim")
        panel.set(xlabel="first dimension", ylabel="second dimension")
        panel.spines[["top", "right"]].set_visible(False)
    figure.suptitle(title, fontsize="medium")
    return figure, panels


def _save(figure, path: str | os.PathLike) -> None:
    write_atomically(path, lambda file: figure.savefig(file, format="png"))
