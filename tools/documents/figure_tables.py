"""Tables and pictures of figures 3.2, 3.5, 4.2 to 4.4 and 5.6, from rows."""

from __future__ import annotations

import dataclasses
import pathlib
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from common.errors import InvalidInput
from experiments.reports import PlainTable
from experiments.rows.rows import TRAINING
from experiments.rows.scores import labels_of, scores_of_trainings
from experiments.rows.store import StudyRows
from experiments.studies.lambda_and_proxies import SEARCH, SearchPoint, draw_search, search_table
from experiments.studies.mnist_record import recorded_snapshots, recorded_states
from experiments.studies.mnist_report import draw_states, problems_table
from experiments.studies.prototype_combination import draw_combination, proposition_table
from experiments.studies.zero_shot_panels import zero_shot_panels
from experiments.studies.zero_shot_prediction import Side, drawn_panel, prediction_table, ridge_table

Table = tuple[PlainTable, Sequence[str]]


def mnist_problems(study: StudyRows, anchors: str) -> Table:
    """Tabulate figure 3.2: states of the first run beside the printed panels.

    Args:
        study: its rows.
        anchors: that represent the classes, a label of the rows.
    """
    rows = _rows(study, "states", "3.2", anchors)
    table = problems_table(anchors, [recorded_states(row["extras"]) for row in rows])
    return dataclasses.replace(table, title=""), [anchors]


def draw_mnist_problems(study: StudyRows, path: pathlib.Path, anchors: str) -> None:
    """Draw figure 3.2: test digits in the plane.

    Args:
        study: its rows.
        path: of the PNG.
        anchors: of a run with recorded digits.
    """
    row = _rows(study, "states", "3.2", anchors)[0]
    states, arrays = recorded_states(row["extras"]), study.scored(row).arrays
    snapshots = recorded_snapshots(arrays, len(states))
    draw_states(states, snapshots, arrays["labels"], row["extras"]["class_names"], path, anchors)


def lambda_search(study: StudyRows) -> Table:
    """Tabulate figure 3.5: points of the search and the regression's maximum.

    Args:
        study: its rows.
    """
    points, pool_size = _search_points(study)
    return search_table("", list(points.values()), pool_size), list(points)


def draw_lambda_search(study: StudyRows, path: pathlib.Path, title: str) -> None:
    """Draw figure 3.5: the surface.

    Args:
        study: its rows.
        path: of the PNG.
        title: above the axes.
    """
    points, pool_size = _search_points(study)
    draw_search(title, list(points.values()), pool_size, path)


def proposition(study: StudyRows) -> Table:
    """Tabulate figures 4.2 to 4.4: errors of combined prototypes, and bounds.

    Args:
        study: its rows, of one run.
    """
    row = _rows(study, "proposition", "4.2")[0]
    return proposition_table("", row["extras"]["proposition"]), [row["label"]]


def draw_prototypes(study: StudyRows, path: pathlib.Path, figure: str, title: str) -> None:
    """Draw figure 4.2, 4.3 or 4.4.

    Args:
        study: its rows, of one run.
        path: of the PNG.
        figure: the thesis' number.
        title: above the panels.
    """
    row = _rows(study, "proposition", "4.2")[0]
    arrays = study.scored(row).arrays
    shown = arrays["local"], arrays["labels"], arrays["prototypes"]
    draw_combination(figure, *shown, row["extras"]["class_names"], path, title)


def zero_shot(study: StudyRows) -> Table:
    """Tabulate figure 5.6: prediction with and without the loss, and its verdict.

    Args:
        study: its rows.
    """
    sides = _sides(study)
    return prediction_table("", sides), list(sides)


def zero_shot_ridges(study: StudyRows) -> Table:
    """Tabulate figure 5.6 under l2 for several ridges of the regression.

    Args:
        study: its rows.
    """
    sides = _sides(study)
    return ridge_table("", sides), list(sides)


def draw_zero_shot(study: StudyRows, path: pathlib.Path, title: str) -> None:
    """Draw figure 5.6: histograms, accuracies and images of each side's first run.

    Args:
        study: its rows.
        path: of the PNG.
        title: above all.
    """
    sides, panels = _sides(study), []
    for name, side in sides.items():
        row = _rows(study, "class_names", "5.6", name)[0]
        names = row["extras"]["image_names"], row["extras"]["prototype_names"]
        panels.append(drawn_panel(name, side, study.scored(row).arrays, *names))
    chance = next(iter(sides.values())).chance
    zero_shot_panels(panels, path, class_names=row["extras"]["class_names"], chance=chance, title=title)


def _sides(study: StudyRows) -> dict[str, Side]:
    """Return both ways of training, in the order of the study."""
    places = {row["label"]: row["extras"]["place"] for row in _rows(study, "zero_shot", "5.6")}
    sides = {}
    for label in sorted(places, key=lambda label: places[label]):
        rows = scores_of_trainings(study, label).rows
        sides[label] = Side(
            [(row["fold"], row["repeat"]) for row in rows],
            [row["test"]["MAP@R"] for row in rows],
            [row["extras"]["zero_shot"] for row in rows],
        )
    return sides


def _search_points(study: StudyRows) -> tuple[dict[str, SearchPoint], int]:
    """Return the search's points by label, in its order, and the pool's size."""
    found: dict[str, Mapping[str, Any]] = {row["label"]: row["extras"][SEARCH] for row in _rows(study, SEARCH, "3.5")}
    points = {}
    for label in sorted(found, key=lambda label: found[label]["place"]):
        value = float(np.mean([row["validation"]["MAP@R"] for row in scores_of_trainings(study, label).rows]))
        of = found[label]
        points[label] = SearchPoint(of["log10_lambda"], of["proxies"], of["chosen_by"], value)
    return points, next(iter(found.values()))["pool_size"]


def _rows(study: StudyRows, extra: str, figure: str, label: str | None = None) -> list[dict]:
    """Return runs that keep `extra`, of one label or all, by fold and repeat."""
    labels = labels_of(study) if label is None else [label]
    rows = [row for row in study.rows if row["kind"] == TRAINING and row["label"] in labels and extra in row["extras"]]
    if not rows:
        of = "" if label is None else f" of {label}"
        raise InvalidInput(f"{study.folder}: no row{of} keeps {extra!r}. Expected those of figure {figure}.")
    return rows
