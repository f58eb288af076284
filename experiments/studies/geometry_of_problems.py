"""Effect of alternating on unseen classes: the test embeddings after each projection problem.

Regenerates: thesis figure 3.3 (t-SNE of CUB's unseen classes under C2+CCP, (a) before alternating and (b) through three
    more problems; each panel prints MAP@R, average covering radius and mean distance between classes).
Expected: thesis section 3.3.1: after (a), the radius falls and the distance between classes rises. The panels' figures
    are lost.
"""

from __future__ import annotations

import pathlib
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from ccp_dml.projection_problem import snapshot_path
from common import retrieval
from common.data import Dataset
from common.errors import check_given
from common.files import read_arrays
from experiments.plans.study import Cell, FinishedCells, Study, StudyOptions, finished_rows
from experiments.reports import Table
from experiments.rows.rows import Row
from experiments.studies.chapters import budget_notes, ccp_settings
from experiments.studies.geometry import average_covering_radius, mean_distance_between_classes
from experiments.studies.mnist_report import change, state_name
from experiments.studies.plane_panels import PlanePanel, plane_panels

_NUM_PROBLEMS = 4  # (a) and three more
_NUM_CLASSES, _EXAMPLES_PER_CLASS = 20, 30  # in the panels
_END = "end of training"


class GeometryOfProblems(Study):
    """CCP training that keeps the test embeddings at the borders of its problems."""

    def __init__(self, options: StudyOptions):
        loss, settings = options.only_loss("c2"), ccp_settings(options)
        config = options.configuration(loss, "ccp", settings=settings, ccp_keeps_problems=True)
        several = options.repeats > 1
        self.groups = {
            loss: [
                Cell(f"{loss}+ccp{f', repeat {repeat}' if several else ''}", config, 0, repeat)
                for repeat in range(options.repeats)
            ]
        }
        self.title = f"Unseen classes after each projection problem on {options.dataset} (thesis figure 3.3)"
        self.notes = (
            "Covering radius: of each test class by 1, 2, ..., n of its own n examples, the average; distance: between "
            "examples of different classes. Both in the embedding space, not in the t-SNE.",
            *budget_notes(options, settings),
        )

    def render(self, finished: FinishedCells, folder: pathlib.Path, name: str) -> str:
        """Write the first finished run's table and panels, and the direction of all."""
        runs = finished_rows(self.cells(finished), finished)
        states = [states_of(row) for row in runs]
        lines = [
            [state.name, state.steps, f"{state.map_at_r:.3f}", f"{state.radius:.3f}", f"{state.distance:.3f}"]
            for state in states[0]
        ]
        header = ["after", "steps", "test MAP@R", "covering radius", "distance between classes"]
        notes = [*(direction(of_run, row["repeat"]) for row, of_run in zip(runs, states)), *self.notes]
        text = Table(self.title, header, lines, notes).write(folder, name)
        labels, path = runs[0].test_embeddings()["query_labels"], folder / f"{name}.png"
        draw(states[0], labels, check_given("data set", finished.dataset), path, self.title)
        return f"{text}Figure: {path}"


class State(NamedTuple):
    """Test set at one moment: embeddings `[queries, dim]` and the thesis' figures."""

    name: str
    steps: str
    embeddings: np.ndarray
    map_at_r: float
    radius: float
    distance: float


def states_of(row: Row) -> list[State]:
    """Return the existing states: before problem 1, after the first four, at the end."""
    arrays = row.test_embeddings()
    labels, problems = arrays["query_labels"], row["extras"]["problems"]
    moments = [
        (state_name(index), f"{problems[index - 1]['steps']:,}" if index else "-", snapshot_path(row.folder, index))
        for index in range(min(len(problems), _NUM_PROBLEMS + 1))
    ]
    embeddings = [(name, steps, read_arrays(path)["queries"]) for name, steps, path in moments]
    return [
        State(
            name,
            steps,
            found,
            retrieval.evaluate_retrieval(found, labels).map_at_r,
            average_covering_radius(found, labels),
            mean_distance_between_classes(found, labels),
        )
        for name, steps, found in [*embeddings, (_END, f"{row['steps']:,}", arrays["queries"])]
    ]


def direction(states: Sequence[State], repeat: int) -> str:
    """State whether MAP@R and distance rose and the radius fell after (a)."""
    if len(states) < 3:
        return f"seed {repeat + 1}: no problem was followed by another one, so there is no direction to see."
    first, last = states[1], states[-1]
    changes = [
        change("MAP@R", first.map_at_r, last.map_at_r, "rises"),
        change("covering radius", first.radius, last.radius, "falls"),
        change("distance", first.distance, last.distance, "rises"),
    ]
    return f"seed {repeat + 1}, from (a) to the end: {'; '.join(changes)}."


def draw(states: Sequence[State], labels: np.ndarray, dataset: Dataset, path: pathlib.Path, title: str) -> None:
    """Draw t-SNE panels of all states, of some classes."""
    classes = np.unique(labels)[:_NUM_CLASSES]
    chosen = np.concatenate([np.flatnonzero(labels == label)[:_EXAMPLES_PER_CLASS] for label in classes])
    drawn = np.searchsorted(classes, labels[chosen])
    panels = []
    for state in states:
        figures = f"MAP@R {state.map_at_r:.3f}  radius {state.radius:.3f}  distance {state.distance:.3f}"
        panels.append(PlanePanel(f"{state.name}\n{figures}", in_the_plane(state.embeddings[chosen]), drawn))
    names = [dataset.class_names[label] if len(dataset.class_names) else f"class {label}" for label in classes]
    plane_panels(panels, path, class_names=names, title=title, unit_circle=False)


def in_the_plane(embeddings: np.ndarray) -> np.ndarray:
    """Map `[examples, dim]` into the unit disc `[examples, 2]` by deterministic t-SNE."""
    from sklearn.manifold import TSNE  # takes a second to import, which no other study needs
    from threadpoolctl import threadpool_limits

    perplexity = min(30.0, (len(embeddings) - 1) / 3)
    embedding = TSNE(init="pca", perplexity=perplexity, random_state=0)
    with threadpool_limits(limits=1):  # for so few points, threads wait for one another most of the time
        points = embedding.fit_transform(embeddings.astype(np.float64))
    points = points - points.mean(axis=0)
    return points / max(np.linalg.norm(points, axis=1).max(), 1e-12)
