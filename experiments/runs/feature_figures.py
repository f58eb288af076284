"""Test figures of each feature of an embedding and of their concatenation."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from common import diagnostics, retrieval
from experiments.settings.config import ExperimentConfig
from experiments.settings.loss_building import feature_slices

CONCATENATED = "concatenated"
METRICS = ("P@1", "MAP@R")


def feature_figures(config: ExperimentConfig, embeddings: Mapping[str, np.ndarray]) -> dict[str, dict[str, float]]:
    """Evaluate each slice and the whole, by name; empty for one feature.

    Args:
        config: names the features.
        embeddings: what `test_embeddings.npz` holds: `queries`, `query_labels` and, if apart, the gallery.
    """
    slices = feature_slices(config)
    if not slices:
        return {}
    return {name: _figures(embeddings, columns) for name, columns in {**slices, CONCATENATED: slice(None)}.items()}


def _figures(embeddings: Mapping[str, np.ndarray], columns: slice) -> dict[str, float]:
    queries, labels = embeddings["queries"][:, columns], embeddings["query_labels"]
    gallery = embeddings.get("gallery")
    gallery = None if gallery is None else gallery[:, columns]
    retrieved = retrieval.evaluate_retrieval(queries, labels, gallery, embeddings.get("gallery_labels")).as_dict()
    found = diagnostics.diagnose(queries, labels).as_dict()
    shape = {name: value for name, value in found.items() if isinstance(value, float)}
    return {"dim": queries.shape[1], **{name: retrieved[name] for name in METRICS}, **shape}
