"""Table with P@1 of training and test images below it, by representation."""

from __future__ import annotations

import functools
import operator
import pathlib
from collections.abc import Callable, Mapping, Sequence

import numpy as np

from common.errors import check_given
from common.files import read_json, write_json
from common.progress import progress_bar
from experiments.plans.fair_table import FairRow, FairTable
from experiments.plans.study import FinishedCells, StudyOptions, finished_rows
from experiments.published.values import dissertation_value
from experiments.reports import Table
from experiments.rows.rows import Row, evaluate_embeddings
from experiments.runs.evaluation import embedded
from experiments.runs.trained_model import TrainedModel, load_trained_model
from experiments.settings.method_names import SHARED
from milbich_dml.features import DISCRIMINATIVE, feature_slices

FEATURES, REDRAWN = "features", "drawn head"
KEPT = "generalization.json"  # in a run's folder
_OUTPUTS = ("embeddings", "features")  # of a model
_PRINTED = {DISCRIMINATIVE: "phi", SHARED: "phi*", REDRAWN: "phi(random re-init)", FEATURES: "f (backbone features)"}
_NOTES = (
    "Mean over the finished runs. P@1 of the images that a run learnt from, each searched for among the others, and of "
    "the test set: other classes, and another number of images. The gap is test minus training.",
    f"`{FEATURES}`: the backbone's average features. `{REDRAWN}`: these behind a linear head that was never trained.",
)


class GeneralizationGapTable(FairTable):
    """Published table with P@1 of the runs' representations on training and test images."""

    def __init__(
        self, title: str, table: str, rows: Sequence[FairRow], options: StudyOptions, models: Mapping[str, str]
    ) -> None:
        super().__init__(title, table, rows, options, chapter=5)
        self._models = models

    def render(self, finished: FinishedCells, folder: pathlib.Path, name: str) -> str:
        """Write the table and its runs' representations (`<name>_gap.md`, `.csv`)."""
        text = super().render(finished, folder, name)
        lines = []
        for label, cells in self.groups.items():
            lines += self._lines(label, finished_rows(cells, finished), finished)
        if not lines:
            return text
        header = ("method", "representation", "runs", "dim", "training P@1", "test P@1", "gap", "printed gap (R@1)")
        gaps = Table(f"Generalisation gap: {self.title}", header, lines, _NOTES)
        return f"{text}\n{gaps.write(folder, f'{name}_gap')}"

    def _lines(self, label: str, runs: list[Row], finished: FinishedCells) -> list[list[str]]:
        if not runs:
            return []
        dataset = check_given("dataset", finished.dataset)
        shown = progress_bar(runs, desc=f"representations of {label}")
        found = [generalization_of(row, dataset, finished.cache_dir) for row in shown]
        lines = []
        for name in found[0]:
            training, test = (100 * np.mean([each[name][side] for each in found]) for side in ("training", "test"))
            cell = dissertation_value(
                check_given("table", self.table), dataset.name, self._printed(label, name), "generalization_gap"
            )
            printed = "-" if cell is None else f"{cell.value:+.1f}"
            figures = [f"{training:.2f}", f"{test:.2f}", f"{test - training:+.2f}", printed]
            lines.append([label, name, str(len(found)), str(found[0][name]["dim"]), *figures])
        return lines

    def _printed(self, label: str, name: str) -> str:
        return f"{self._models.get(label)} / {_PRINTED.get(name)}"


def generalization_of(row: Row, dataset, cache_dir: str | None) -> dict[str, dict[str, float]]:
    """Return `generalization` of a finished run; kept in its folder."""
    path = row.folder / KEPT
    found = read_json(path)
    if found is None:
        found = generalization(load_trained_model(row.folder, dataset=dataset, cache_dir=cache_dir), *row.place)
        write_json(path, found)
    return found


def generalization(trained: TrainedModel, *seed: int) -> dict[str, dict[str, float]]:
    """Return P@1 on training and test images, by representation.

    Each has `dim`, `training` and `test`. The representations are each feature of the embedding, the backbone's average
    features (of unit length), and these behind an untrained head of the first feature's size, drawn from `seed`.

    Reference: Milbich's dissertation, table 3.6 (f; φ with random weights is read as a drawn linear head on f).
    """
    dataset, inputs = trained.dataset, trained.inputs
    sides = {"training": (trained.training, None), "test": (dataset.test, dataset.gallery)}
    slices = feature_slices(trained.config.loss.features, trained.model.feature_sizes)
    slices = slices or {DISCRIMINATIVE: slice(None)}
    found: dict[str, dict[str, float]] = {}
    for side, examples in sides.items():
        embeddings, features = (embedded(trained.model, inputs, *examples, output) for output in _OUTPUTS)
        kinds = {name: _mapped(embeddings, operator.itemgetter((..., columns))) for name, columns in slices.items()}
        dim = kinds[DISCRIMINATIVE]["queries"].shape[1]
        shape = features["queries"].shape[1], dim
        head = np.random.default_rng(seed).normal(size=shape).astype(np.float32)
        kinds |= {FEATURES: features, REDRAWN: _mapped(features, functools.partial(_projected, head=head))}
        for name, arrays in kinds.items():
            figures = found.setdefault(name, {"dim": arrays["queries"].shape[1]})
            figures[side] = evaluate_embeddings(arrays).as_dict()["P@1"]
    return found


def _mapped(arrays: Mapping[str, np.ndarray], change: Callable[[np.ndarray], np.ndarray]) -> dict[str, np.ndarray]:
    """Replace the vectors in arrays from `embedded`."""
    return {name: array if name.endswith("labels") else change(array) for name, array in arrays.items()}


def _projected(features: np.ndarray, head: np.ndarray) -> np.ndarray:
    """Project by a linear head to unit length."""
    projected = features @ head
    return projected / np.linalg.norm(projected, axis=1, keepdims=True)
