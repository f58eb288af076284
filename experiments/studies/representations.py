"""Representations inside a trained model: P@1 of training images and of the test set."""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable, Mapping

import numpy as np

from common.files import read_json, write_json
from experiments.reports import UnitRun
from experiments.runs.evaluation_inputs import EvaluationInputs
from experiments.runs.trained_model import TrainedModel, load_trained_model
from experiments.runs.unit import embedded, evaluate_embeddings
from experiments.settings.loss_building import DISCRIMINATIVE, feature_slices

FEATURES, REDRAWN = "features", "drawn head"
KEPT = "generalization.json"  # in a run's folder
_OUTPUTS = ("embeddings", "features")  # of a model


def generalization_of(unit: UnitRun, dataset, cache_dir: str | None) -> dict[str, dict[str, float]]:
    """Return `generalization` of a finished run; kept in its folder.

    Args:
        unit: finished.
        dataset: as loaded.
        cache_dir: the folder for prepared images, or None for the default.
    """
    path = unit.path / KEPT
    found = read_json(path)
    if found is None:
        found = generalization(
            load_trained_model(unit.path, dataset=dataset, cache_dir=cache_dir), unit.fold, unit.repeat
        )
        write_json(path, found)
    return found


def generalization(trained: TrainedModel, *seed: int) -> dict[str, dict[str, float]]:
    """Return P@1 on training and test images, by representation.

    Each has `dim`, `training` and `test`. The representations are each feature of the embedding, the backbone's average
    features (of unit length), and these behind a randomly drawn, untrained head of the first feature's size.

    Reference: Milbich's dissertation, table 3.6 (f; φ with random weights is read as a drawn linear head on f).

    Args:
        trained: the run.
        *seed: of the drawn head.
    """
    dataset, inputs = trained.dataset, EvaluationInputs(trained.config, trained.dataset)
    sides = {"training": (trained.training, None), "test": (dataset.test, dataset.gallery)}
    found: dict[str, dict[str, float]] = {}
    for side, examples in sides.items():
        embeddings, features = (embedded(trained.model, inputs, *examples, output) for output in _OUTPUTS)
        slices = feature_slices(trained.config) or {DISCRIMINATIVE: slice(None)}
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
