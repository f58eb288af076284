"""Points in the plane: features with prototypes, tokens with pooled samples."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from experiments.reports.plots import picture

if TYPE_CHECKING:
    from gsp_dml import PrototypeCombination

_NUM_IMAGES = 3
_ACTIVE_SHARE = 0.01  # of a class' features, for a prototype to be active in it


@dataclass(frozen=True)
class PrototypePlane:
    """The data of the three pictures.

    Args:
        local: local features `[images, positions, 2]` in the unit ball.
        labels: of the images, from 0, `[images]`.
        prototypes: `[prototypes, 2]`.
        combination: as `gsp_dml.prototype_combination` gives it.
        class_names: of each label.
    """

    local: np.ndarray
    labels: np.ndarray
    prototypes: np.ndarray
    combination: PrototypeCombination
    class_names: Sequence[str]


def partition_panel(plane: PrototypePlane, path: str | os.PathLike, *, title: str = "") -> None:
    """Draw local features coloured by prototype, and the covering radius, as PNG."""
    from matplotlib import colormaps
    from matplotlib.lines import Line2D
    from matplotlib.patches import Circle

    with _panels(path, title) as (figure, (axes,)):
        points, nearest = plane.local.reshape(-1, 2), plane.combination.nearest.ravel()
        order = np.random.default_rng(0).permutation(len(plane.prototypes))  # neighbours get different colours
        axes.scatter(*points.T, s=5, c=colormaps["turbo"](order[nearest] / len(order)), linewidths=0, alpha=0.6)
        axes.scatter(
            *plane.prototypes.T, s=26, marker="s", c="white", edgecolors="black", linewidths=1, label="prototypes"
        )
        distances = np.linalg.norm(points - plane.prototypes[nearest], axis=1)
        center = plane.prototypes[nearest[distances.argmax()]]
        radius = plane.combination.covering_radius
        axes.add_patch(Circle(center, radius, fill=False, color="black", linestyle="--"))
        squares = axes.get_legend_handles_labels()[0]
        circle = Line2D(
            [], [], color="black", linestyle="--", label=f"covering radius {radius:.3f}, where it is reached"
        )
        axes.legend(handles=[*squares, circle], frameon=False, fontsize="small", loc="best")


def hull_panel(plane: PrototypePlane, path: str | os.PathLike, *, title: str = "") -> None:
    """Draw image averages and each class's active hull, as a PNG.

    Classes with the same hull share it and its colour.
    """
    from matplotlib import colormaps

    with _panels(path, title) as (figure, (axes,)):
        for number, (corners, labels) in enumerate(shared_hulls(plane).items()):
            members, color = np.isin(plane.labels, labels), colormaps["tab10"](number % 10)
            outline = plane.prototypes[[*corners]]
            axes.fill(*outline.T, color=color, alpha=0.12, linewidth=0)
            axes.plot(*np.vstack([outline, outline[:1]]).T, color=color, linewidth=1)
            names = "\n".join(plane.class_names[label] for label in labels)
            axes.scatter(*plane.combination.averages[members].T, s=10, color=color, linewidths=0, label=names)
        axes.scatter(*plane.prototypes.T, s=20, marker="s", c="white", edgecolors="black", linewidths=0.9, zorder=3)
        figure.legend(loc="outside right upper", frameon=False, fontsize="small")


def combination_panels(plane: PrototypePlane, path: str | os.PathLike, *, title: str = "") -> None:
    """Draw three images of different classes: features, weighted prototypes, average, combination."""
    chosen = [int(np.flatnonzero(plane.labels == label)[0]) for label in np.unique(plane.labels)[:_NUM_IMAGES]]
    with _panels(path, title, len(chosen)) as (figure, panels):
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

    with picture(path, 4.9 * len(panels), 5.6, columns=len(panels), dpi=120) as (figure, places):
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
        figure.suptitle(title, fontsize="medium")
        figure.supxlabel(
            "squares: tokens of a class; crosses: tokens of all; dots: samples, in their classes' hulls", size=8
        )


def share_in_other_hulls(samples: np.ndarray, labels: np.ndarray) -> float:
    """Return the share of samples `[samples, 2]` inside another class's hull."""
    from matplotlib.path import Path

    inside = np.zeros(len(samples), bool)
    for label in np.unique(labels):
        corners = samples[labels == label]
        others = labels != label
        inside[others] |= Path(corners[hull_order(corners)]).contains_points(samples[others])
    return float(inside.mean())


@contextlib.contextmanager
def _panels(path: str | os.PathLike, title: str, count: int = 1) -> Iterator[tuple[Any, Any]]:
    """Yield a figure and its panels of the plane; then write it."""
    with picture(path, 4.6 * count + (3.0 if count == 1 else 0), 5.4, columns=count, dpi=130) as (figure, panels):
        for panel in panels:
            panel.set_aspect("equal", adjustable="datalim")
            panel.set(xlabel="first dimension", ylabel="second dimension")
        figure.suptitle(title, fontsize="medium")
        yield figure, panels
