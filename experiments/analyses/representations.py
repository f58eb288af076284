"""Representations inside of a trained model: P@1 of training images and of the test set."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from common import retrieval
from common.data import Examples
from common.files import read_json, write_json
from experiments.reports import UnitRun
from experiments.settings.loss_building import DISCRIMINATIVE, feature_names, feature_sizes_of
from experiments.units.pooling_weights import image_batches
from experiments.units.trained_model import TrainedModel, load_trained_model

FEATURES, REDRAWN = "features", "drawn head"
KEPT = "generalization.json"  # in a run's folder


def generalization_of(unit: UnitRun, dataset, cache_dir: str | None) -> dict[str, dict[str, float]]:
    """`generalization` of a finished run; kept in its folder.

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
    """P@1 among the training images and on the test set, by representation: `dim`, `training`, `test`.

    The representations are each feature of the embedding, the backbone's average features (of unit length), and these
    behind a head of the first feature's size that is drawn anew and not trained.

    Reference: Milbich's dissertation, table 3.6 (f; φ with random weights is read as a drawn linear head on f).

    Args:
        trained: the run.
        *seed: of the drawn head.
    """
    dataset = trained.dataset
    parts = {"training": trained.training, "queries": dataset.test, "gallery": dataset.gallery}
    vectors = {name: _vectors(trained, examples) for name, examples in parts.items() if examples is not None}
    channels, dim = vectors["training"][FEATURES].shape[1], vectors["training"][DISCRIMINATIVE].shape[1]
    head = np.random.default_rng(seed).normal(size=(channels, dim)).astype(np.float32)
    for of_part in vectors.values():
        projected = of_part[FEATURES] @ head
        of_part[REDRAWN] = projected / np.linalg.norm(projected, axis=1, keepdims=True)
    return {name: _figures(name, vectors, trained) for name in vectors["training"]}


def _vectors(trained: TrainedModel, examples: Examples) -> dict[str, np.ndarray]:
    """Each representation of examples."""
    batches = image_batches(examples, trained.config, trained.dataset)
    embeddings = trained.model.embed(batches)
    names, sizes = feature_names(trained.config) or (DISCRIMINATIVE,), feature_sizes_of(trained.config) or ()
    slices = dict(zip(names, np.split(embeddings, np.cumsum(sizes)[:-1].astype(int), axis=1)))
    return {**slices, FEATURES: trained.model.embed(batches, output="features")}


def _figures(name: str, vectors: Mapping[str, Mapping[str, np.ndarray]], trained: TrainedModel) -> dict[str, float]:
    dataset = trained.dataset
    of_training = retrieval.evaluate_retrieval(vectors["training"][name], trained.training.labels)
    gallery = (vectors["gallery"][name], dataset.gallery.labels) if dataset.gallery is not None else ()
    of_test = retrieval.evaluate_retrieval(vectors["queries"][name], dataset.test.labels, *gallery)
    scores = {"training": of_training.as_dict()["P@1"], "test": of_test.as_dict()["P@1"]}
    return {"dim": vectors["training"][name].shape[1], **scores}
