"""Pipelines for repeated evaluation, with decoded images within a memory budget."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np

from common import diagnostics, training
from common.data import Dataset, Examples
from common.errors import check_non_negative
from experiments.runs.pooling_weights import image_batches
from experiments.settings import build
from experiments.settings.config import ExperimentConfig

if TYPE_CHECKING:
    import tensorflow as tf

MEGABYTE = 10**6


class EvaluationInputs:
    """`image_batches` for repeated evaluation: each pipeline is built once.

    Args:
        decoded_images_mb: MB (10^6 bytes) of decoded images that `repeated` may keep in memory in all; 0: none.
    """

    def __init__(self, config: ExperimentConfig, dataset: Dataset, decoded_images_mb: int = 0) -> None:
        self.config, self.dataset = config, dataset
        self._room = check_non_negative("decoded_images_mb", decoded_images_mb) * MEGABYTE
        self._built: dict[int, tuple[Examples, tf.data.Dataset]] = {}  # examples are kept, so that no id comes again
        self._kept: set[int] = set()

    def __call__(self, examples: Examples) -> tf.data.Dataset:
        """Return the inputs of examples, in order; they can be read repeatedly."""
        if id(examples) not in self._built:
            self._built[id(examples)] = examples, image_batches(examples, self.config, self.dataset)
        return self._built[id(examples)][1]

    def repeated(self, examples: Examples) -> tf.data.Dataset:
        """Return inputs read from files once, if the decoded images fit.

        Decoded images are kept after one full reading. Those beyond the budget are decoded at each reading. The inputs
        are the same, bit for bit.
        """
        batches = self(examples)
        size = decoded_bytes(examples, batches)
        if id(examples) not in self._kept and size is not None and size <= self._room:
            self._room -= size
            self._kept.add(id(examples))
            self._built[id(examples)] = examples, batches.cache()
        return self._built[id(examples)][1]

    def release(self) -> None:
        """Free all pipelines and their decoded images."""
        self._built.clear()
        self._kept.clear()


def decoded_bytes(examples: Examples, batches: tf.data.Dataset) -> int | None:
    """Return the inputs' memory in bytes; None if in memory or memory-mapped."""
    if examples.paths is None:
        return None
    spec = batches.element_spec
    return len(examples) * math.prod(spec.shape[1:]) * spec.dtype.size


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
    """Embed the test set by unit-length average features of the untrained network.

    Returns:
        `queries` and, where it is apart, `gallery`, each `[examples, channels]`.
    """
    prepared = build.prepare_dataset(dataset, config, cache_dir)
    inputs = EvaluationInputs(config, prepared)
    model = build.build_model(config, prepared, prepared.train.num_classes)
    parts = {"queries": prepared.test, "gallery": prepared.gallery}
    return {part: model.embed(inputs(each), output="features") for part, each in parts.items() if each is not None}
