"""Test queries and a trained model's right and wrong results."""

from __future__ import annotations

import os
from collections.abc import Callable

import numpy as np

from common import retrieval
from common.data import Dataset
from common.errors import InvalidInput
from experiments.reports import UnitRun
from experiments.settings.config import ExperimentConfig
from experiments.site.drawings import Drawings
from experiments.site.example_images import class_name, pictures


def shown_classes(labels: np.ndarray, count: int) -> np.ndarray:
    """Draw classes of `labels` `[examples]` with two or more, alike for every method."""
    classes, sizes = np.unique(labels, return_counts=True)
    eligible = classes[sizes >= 2] if (sizes >= 2).any() else classes
    return np.random.default_rng(0).permutation(eligible)[:count]


def drawn_queries(labels: np.ndarray, count: int) -> np.ndarray:
    """Draw an example of each of some classes, whatever is found for it."""
    generator = np.random.default_rng(1)
    return np.array([generator.choice(np.flatnonzero(labels == label)) for label in shown_classes(labels, count)])


def retrieval_record(
    unit: UnitRun,
    config: ExperimentConfig,
    load: Callable[[], Dataset],
    drawings: Drawings,
    num_queries: int,
    num_neighbors: int,
) -> dict:
    """Record a query per class with its nearest neighbours, right or wrong.

    Without pictures (no data set, or none in it), classes have only names or numbers.
    """
    arrays = unit.test_embeddings()
    labels, gallery = arrays["query_labels"], arrays.get("gallery")
    found_labels = labels if gallery is None else arrays["gallery_labels"]
    rows = drawn_queries(labels, num_queries)
    neighbors = neighbors_of(arrays["queries"], gallery, rows, num_neighbors)
    try:
        dataset, reason = load(), ""
    except InvalidInput as error:
        dataset, reason = None, str(error)

    def described(examples, indices, their_labels) -> list[dict]:
        names = [{"name": class_name(dataset, their_labels[index])} for index in indices]
        if dataset is None or dataset.kind == "tokens":
            return names
        chosen = examples.subset(indices)
        if chosen.paths is not None:
            names = [{**name, "file": os.path.abspath(path)} for name, path in zip(names, chosen.file_names)]
        shown = pictures(chosen, config, dataset)
        return [{**name, "image": drawings.image(image)} for name, image in zip(names, shown)]

    test = dataset and dataset.test
    queries = described(test, rows, labels)
    hits = described(test if gallery is None else dataset and dataset.gallery, neighbors.ravel(), found_labels)
    for hit, index, query in zip(hits, neighbors.ravel(), np.repeat(rows, neighbors.shape[1])):
        hit["is_right"] = bool(found_labels[index] == labels[query])
    lines = [
        {"query": query, "found": hits[start : start + neighbors.shape[1]]}
        for query, start in zip(queries, range(0, len(hits), neighbors.shape[1]))
    ]
    return {"lines": lines, "is_incomplete": dataset is None, "reason": reason}


def neighbors_of(queries: np.ndarray, gallery: np.ndarray | None, rows: np.ndarray, count: int) -> np.ndarray:
    """Search as the evaluation does: indices `[rows, count]`, nearest first, without the query.

    Without a gallery, the queries `[examples, dim]` are searched.
    """
    if gallery is not None:
        return retrieval.find_nearest_neighbors(queries[rows], gallery, num_neighbors=min(count, len(gallery)))
    count = min(count, len(queries) - 1)
    found = retrieval.find_nearest_neighbors(queries[rows], queries, num_neighbors=count + 1)
    return np.array([[index for index in line if index != row][:count] for row, line in zip(rows, found)])
