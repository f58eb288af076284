"""Test embeddings of some classes in the plane."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from sklearn.manifold import TSNE
from threadpoolctl import threadpool_limits

from common.data import Dataset
from common.errors import InvalidInput
from experiments.reports import UnitRun
from experiments.site.example_images import class_name
from experiments.site.retrieval_grid import shown_classes

_PER_CLASS = 30
FEWEST = 4  # points that a map is drawn of


def perplexity_of(num_points: int) -> float:
    """Return t-SNE's perplexity for so many points."""
    return min(30.0, (num_points - 1) / 3)


def plane(vectors: np.ndarray) -> np.ndarray:
    """Arrange four vectors or more `[points, dim]` in the unit square `[points, 2]` by t-SNE."""
    perplexity, start = perplexity_of(len(vectors)), "pca" if vectors.shape[1] > 1 else "random"
    with threadpool_limits(1):  # few points are faster on one core, and the map does not depend on their number
        points = TSNE(perplexity=perplexity, init=start, random_state=0, n_jobs=1).fit_transform(vectors)
    low, high = points.min(axis=0), points.max(axis=0)
    return (points - low) / np.maximum(high - low, 1e-9)


def map_record(unit: UnitRun, load: Callable[[], Dataset], num_classes: int) -> dict:
    """Map test embeddings of some classes, the retrieval grid's included, by t-SNE.

    At most 30 examples of each class are shown. `load` gives the data set, for the classes' names, or raises
    `InvalidInput`, as do test embeddings that are missing or damaged.
    """
    arrays = unit.test_embeddings()
    labels = arrays["query_labels"]
    classes = shown_classes(labels, num_classes)
    rows = np.concatenate([np.flatnonzero(labels == label)[:_PER_CLASS] for label in classes])
    if len(rows) < FEWEST:
        return {"classes": [], "reason": f"A map needs {FEWEST} examples or more; there are {len(rows)}."}
    try:
        dataset = load()
    except InvalidInput:
        dataset = None
    perplexity = perplexity_of(len(rows))
    places = plane(np.asarray(arrays["queries"][rows], np.float32))
    drawn = [
        {"name": class_name(dataset, label), "points": np.round(places[labels[rows] == label], 3).tolist()}
        for label in classes
    ]
    return {
        "classes": drawn,
        "reason": "",
        "num_classes": len(np.unique(labels)),
        "perplexity": perplexity,
        "is_incomplete": dataset is None,
    }
