"""Average pooling as a near convex combination of prototypes, checked on every image.

Regenerates: thesis figures 4.2 (partition of local features in the plane by 48 prototypes), 4.3 (classes' convex hulls
    of active prototypes) and 4.4 (average and combination of prototypes of three images), and Proposition 4.2.1.
Expected: Proposition 4.2.1 as printed: |PCC - GAP|^2 is at most the covering radius for every image. The caption of
    figure 4.4 claims it of |PCC - GAP|, and prints a radius of 0.057 for the image of a dog. Both bounds must hold here
    for any network (see `gsp_dml.prototype_combination`); a run decides how large radius and error are. The
    loss is not printed; ours is C2, `--loss` selects others.
"""

from __future__ import annotations

import functools
import pathlib
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from common.data import Dataset
from common.errors import check_given
from experiments.plans.study import Cell, FinishedCells, Study, StudyOptions
from experiments.protocols.extras import hull_order
from experiments.reports import Table
from experiments.reports.plots import picture
from experiments.reports.scores import rows_with
from experiments.rows.rows import Row
from experiments.rows.store import StudyRows
from experiments.runs.trained_model import load_trained_model
from gsp_dml import PrototypeCombination as Combination, prototype_combination

NUM_CLASSES, IMAGES_PER_CLASS = 10, 64
NUM_PROTOTYPES = 48
_COUNTS = (12, 24, NUM_PROTOTYPES, 96)  # of prototypes, in the table
_DIGITS = 8  # of recorded figures: other machines round the last ones in another way
_NUM_DRAWN_IMAGES = 3
_ACTIVE_SHARE = 0.01  # of a class' features, for a prototype to be active in it


def prototypes_in_the_plane(figure: str, options: StudyOptions) -> Study:
    """Return the study of figure 4.2, 4.3 or 4.4: one run in the plane."""
    loss = options.only_loss("c2")
    settings = {"chapter": 5, "normalization": "clip"}
    config = options.with_pooling("gap").configuration(loss, settings=settings, embedding_dim=2)
    label = f"{loss}+gap in the plane"
    title = f"Average pooling and combinations of prototypes on {options.dataset} (thesis figure {figure})"
    notes = (
        f"Local features of up to {IMAGES_PER_CLASS} test images of up to {NUM_CLASSES} classes, projected to the "
        "plane and scaled into the unit ball. The error is the distance between average and combination; "
        "Proposition 4.2.1 bounds its square by the covering radius, the triangle inequality bounds the error "
        "itself, and tighter by the mean distance of the image's features to their prototypes. No training could "
        "break these bounds: the counts check the computation, the errors and radii are what was measured.",
    )
    pictures = {"": functools.partial(draw_prototypes, figure=figure)}
    return Study(title, {label: [Cell(label, config)]}, proposition, pictures, notes, _kept)


def _kept(place: int, group: str, rows: list[Row], finished: FinishedCells) -> list[Row]:
    """Name the run's row, and measure what table and pictures show."""
    data = check_given("data set", finished.dataset), finished.cache_dir
    return [_measured(row.named(group, {}), *data) for row in rows]


def _measured(row: Row, dataset: Dataset, cache_dir: str | None) -> Row:
    local, labels, names = plane_features(row, dataset, cache_dir)
    figures = [{name: round(value, _DIGITS) for name, value in of.items()} for of in proposition_figures(local)]
    prototypes = choose_prototypes(local, NUM_PROTOTYPES)
    arrays = {"local": local.astype(np.float32), "labels": labels, "prototypes": prototypes.astype(np.float32)}
    drawn = next(of for of in figures if of["prototypes"] == NUM_PROTOTYPES)
    quoted = {"covering_radius": drawn["covering radius"], "largest_error": drawn["largest error"]}
    return row.with_extras({"proposition": figures, "class_names": names, **quoted}, arrays)


def choose_prototypes(local: np.ndarray, count: int) -> np.ndarray:
    """Choose prototypes `[prototypes, dim]` among `[images, positions, dim]` by greedy k-center."""
    from common.ops.k_center import greedy_k_center

    points = local.reshape(-1, local.shape[-1])
    return points[greedy_k_center(points, min(count, len(points))).numpy()]


def proposition_figures(local: np.ndarray) -> list[dict[str, float]]:
    """Compute distances and counts of images for several numbers of prototypes."""
    found = []
    for count in _COUNTS:
        of = prototype_combination(local, choose_prototypes(local, count))
        bounds: dict[str, tuple[np.ndarray, np.ndarray | float]] = {
            "square under radius": (of.errors**2, of.covering_radius),
            "error under radius": (of.errors, of.covering_radius),
            "error under mean distance": (of.errors, of.mean_distances),
        }
        figures = {
            "prototypes": count,
            "mean error": float(of.errors.mean()),
            "largest error": float(of.errors.max()),
            "largest mean distance": float(of.mean_distances.max()),
            "covering radius": float(of.covering_radius),
            "images": len(local),
        }
        found.append(
            {**figures, **{name: int(np.sum(error <= bound + 1e-9)) for name, (error, bound) in bounds.items()}}
        )
    return found


def proposition(study: StudyRows, title: str = "", notes: Sequence[str] = ()) -> Table:
    """Tabulate errors of combined prototypes, and their bounds, from the rows of one run."""
    figures = rows_with(study, "proposition", "4.2")[0]["extras"]["proposition"]
    distances = ["mean error", "largest error", "largest mean distance", "covering radius"]
    counts = ["square under radius", "error under radius", "error under mean distance"]
    lines = [
        [
            f"{of['prototypes']}",
            *(f"{of[name]:.4f}" for name in distances),
            *(f"{of[name]}/{of['images']}" for name in counts),
        ]
        for of in figures
    ]
    return Table(title, ["prototypes", *distances, *counts], lines, notes)


def plane_features(
    row: Row, dataset: Dataset, cache_dir: str | None = None
) -> tuple[np.ndarray, np.ndarray, list[str]]:
    """Return a run's local features in the plane, of some test images.

    Returns:
        Features `[images, positions, 2]` in the unit ball, labels from 0 `[images]`, the labels' names.
    """
    import tensorflow as tf

    trained = load_trained_model(row.folder, dataset=dataset, cache_dir=cache_dir)
    test = trained.dataset.test
    classes = np.unique(test.labels)[:NUM_CLASSES]
    chosen = np.concatenate([np.flatnonzero(test.labels == label)[:IMAGES_PER_CLASS] for label in classes])
    batches = trained.inputs(test.subset(chosen))
    kernel = check_given("projection", trained.model.head.projection).kernel
    features = [tf.matmul(trained.model.backbone(inputs, training=False), kernel).numpy() for inputs in batches]
    local = np.concatenate([maps.reshape(len(maps), -1, 2) for maps in features]).astype(np.float64)
    local /= max(np.linalg.norm(local, axis=-1).max(), 1e-12)
    names = [dataset.class_names[label] if len(dataset.class_names) else f"class {label}" for label in classes]
    return local, np.searchsorted(classes, test.labels[chosen]), names


class PrototypePlane(NamedTuple):
    """Data of the three pictures: the plane's features and their prototypes."""

    local: np.ndarray  # features `[images, positions, 2]` in the unit ball
    labels: np.ndarray  # of the images, from 0, `[images]`
    prototypes: np.ndarray  # `[prototypes, 2]`
    combination: Combination
    class_names: Sequence[str]


def draw_prototypes(study: StudyRows, path: pathlib.Path, title: str, figure: str) -> None:
    """Draw figure 4.2, 4.3 or 4.4 from the rows of one run."""
    row = rows_with(study, "proposition", "4.2")[0]
    local, labels, prototypes = (row.arrays[name] for name in ("local", "labels", "prototypes"))
    combined = prototype_combination(local, prototypes)
    plane = PrototypePlane(local, labels, prototypes, combined, row["extras"]["class_names"])
    draw = {"4.2": _draw_partition, "4.3": _draw_hulls, "4.4": _draw_combinations}[figure]
    count = min(_NUM_DRAWN_IMAGES, len(np.unique(labels))) if figure == "4.4" else 1
    with picture(path, 4.6 * count + (3.0 if count == 1 else 0), 5.4, columns=count, dpi=130) as (drawn, panels):
        for panel in panels:
            panel.set_aspect("equal", adjustable="datalim")
            panel.set(xlabel="first dimension", ylabel="second dimension")
        drawn.suptitle(title, fontsize="medium")
        draw(plane, drawn, panels)


def _draw_partition(plane: PrototypePlane, figure: Any, panels: Sequence[Any]) -> None:
    """Draw local features coloured by prototype, and the covering radius."""
    from matplotlib import colormaps
    from matplotlib.patches import Circle

    (axes,), points, nearest = panels, plane.local.reshape(-1, 2), plane.combination.nearest.ravel()
    order = np.random.default_rng(0).permutation(len(plane.prototypes))  # neighbours get different colours
    axes.scatter(*points.T, s=5, c=colormaps["turbo"](order[nearest] / len(order)), linewidths=0, alpha=0.6)
    _draw_squares(axes, plane.prototypes, s=26, linewidths=1, label="prototypes")
    distances = np.linalg.norm(points - plane.prototypes[nearest], axis=1)
    center, radius = plane.prototypes[nearest[distances.argmax()]], plane.combination.covering_radius
    axes.add_patch(Circle(center, radius, fill=False, color="black", linestyle="--"))
    axes.plot([], [], color="black", linestyle="--", label=f"covering radius {radius:.3f}, where it is reached")
    axes.legend(frameon=False, fontsize="small", loc="best")


def _draw_hulls(plane: PrototypePlane, figure: Any, panels: Sequence[Any]) -> None:
    """Draw image averages, and each active hull in a colour."""
    from matplotlib import colormaps

    (axes,) = panels
    for number, (corners, labels) in enumerate(shared_hulls(plane).items()):
        members, color = np.isin(plane.labels, labels), colormaps["tab10"](number % 10)
        outline = plane.prototypes[[*corners]]
        axes.fill(*outline.T, color=color, alpha=0.12, linewidth=0)
        axes.plot(*np.vstack([outline, outline[:1]]).T, color=color, linewidth=1)
        names = "\n".join(plane.class_names[label] for label in labels)
        axes.scatter(*plane.combination.averages[members].T, s=10, color=color, linewidths=0, label=names)
    _draw_squares(axes, plane.prototypes, s=20, linewidths=0.9, zorder=3)
    figure.legend(loc="outside right upper", frameon=False, fontsize="small")


def _draw_combinations(plane: PrototypePlane, figure: Any, panels: Sequence[Any]) -> None:
    """Draw images of different classes: features, weighted prototypes, average, combination."""
    found, ring = plane.combination, {"facecolors": "none", "edgecolors": "#D55E00", "marker": "o"}
    for axes, label in zip(panels, np.unique(plane.labels)):
        image = int(np.flatnonzero(plane.labels == label)[0])
        weights = found.weights[image]
        used = weights > 0
        squares = {"s": 15 + 500 * weights[used], "marker": "s", "color": "#0072B2", "alpha": 0.5}
        axes.scatter(*plane.prototypes[~used].T, s=10, marker="s", color="0.85")
        axes.scatter(*plane.local[image].T, s=6, color="0.5", label="local features")
        axes.scatter(*plane.prototypes[used].T, label="prototypes, by weight", **squares)
        large = {"s": 90, "linewidths": 2, "zorder": 3}
        axes.scatter(*found.averages[image], label="GAP", marker="x", color="black", **large)
        axes.scatter(*found.combinations[image], label="combination (PCC)", **ring, **large)
        errors = f"error {found.errors[image]:.3f}, covering radius {found.covering_radius:.3f}"
        axes.set_title(f"{plane.class_names[label]}: {errors}", fontsize="small")
    figure.legend(*panels[0].get_legend_handles_labels(), loc="outside lower center", frameon=False, ncols=4)


def _draw_squares(axes: Any, prototypes: np.ndarray, **style: Any) -> None:
    axes.scatter(*prototypes.T, marker="s", c="white", edgecolors="black", **style)


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
