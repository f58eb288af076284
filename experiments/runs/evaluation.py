"""Embeddings of a model's images, as they are evaluated."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np

from common import diagnostics, training
from common.data import Dataset, Examples
from experiments.settings import build
from experiments.settings.config import ExperimentConfig

if TYPE_CHECKING:
    import tensorflow as tf


def embedded(
    model: training.EmbeddingModel,
    inputs: Callable[[Examples], tf.data.Dataset],
    queries: Examples,
    gallery: Examples | None = None,
    output: str = "embeddings",
) -> dict[str, np.ndarray]:
    """Embed examples in the format of `evaluate_embeddings` and `test_embeddings.npz`."""

    def embed(examples: Examples) -> np.ndarray:
        return model.embed(inputs(examples), output=output)

    arrays = {"queries": embed(queries), "query_labels": queries.labels}
    if queries.families is not None:
        arrays["query_families"] = queries.families
    if gallery is not None:
        arrays |= {"gallery": embed(gallery), "gallery_labels": gallery.labels}
    return arrays


def normalized_mutual_information(embeddings: dict[str, np.ndarray]) -> float:
    """Compute the NMI of k-means and classes over the queries."""
    return diagnostics.evaluate_clustering(
        embeddings["queries"], embeddings["query_labels"]
    ).normalized_mutual_information


def untrained_embeddings(config: ExperimentConfig, dataset: Dataset, cache_dir: str | None) -> dict[str, np.ndarray]:
    """Embed the test set by unit-length average features of the untrained network, as `embedded`."""
    prepared = build.prepare_dataset(dataset, config, cache_dir)
    inputs = build.build_inputs(config, prepared)
    model = build.build_model(config, prepared, prepared.train.num_classes)
    return embedded(model, inputs, prepared.test, prepared.gallery, output="features")
