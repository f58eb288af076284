"""Test figures of an embedding's features and their concatenation, or of its prefixes."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from common import diagnostics, retrieval
from common.retrieval.metrics import TABLE_METRICS
from experiments.settings.config import ExperimentConfig
from experiments.settings.loss_building import feature_slices

CONCATENATED = "concatenated"


def feature_figures(config: ExperimentConfig, embeddings: Mapping[str, np.ndarray]) -> dict[str, dict[str, float]]:
    """Evaluate each slice and the whole, by name; empty for one feature.

    Prefixes (`--matryoshka`) are brought to unit length if embeddings are.
    """
    if config.prefix_lengths:
        return {f"first {length}": _figures(_prefixes(config, embeddings, length)) for length in config.prefix_lengths}
    slices = feature_slices(config)
    if not slices:
        return {}
    return {name: _figures(embeddings, columns) for name, columns in {**slices, CONCATENATED: slice(None)}.items()}


def _prefixes(config: ExperimentConfig, embeddings: Mapping[str, np.ndarray], length: int) -> dict[str, np.ndarray]:
    """Cut embeddings to their first `length` components, normalised as their loss does."""
    cut = {name: embeddings[name][:, :length] for name in ("queries", "gallery") if name in embeddings}
    if config.normalization == "unit":
        cut = {name: retrieval.combine_embeddings([vectors]) for name, vectors in cut.items()}
    return {**embeddings, **cut}


def _figures(embeddings: Mapping[str, np.ndarray], columns: slice = slice(None)) -> dict[str, float]:
    queries, labels = embeddings["queries"][:, columns], embeddings["query_labels"]
    gallery = embeddings.get("gallery")
    gallery = None if gallery is None else gallery[:, columns]
    retrieved = retrieval.evaluate_retrieval(queries, labels, gallery, embeddings.get("gallery_labels")).as_dict()
    found = diagnostics.diagnose(queries, labels).as_dict()
    shape = {name: value for name, value in found.items() if isinstance(value, float)}
    return {"dim": queries.shape[1], **{name: retrieved[name] for name in TABLE_METRICS}, **shape}
