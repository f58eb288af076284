"""Beginning of a report of custom data: a verdict and pictures."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from common.data import Dataset
from experiments.reports import UnitRun
from experiments.reports.training_effect import training_did_not_help
from experiments.runs.evaluation_inputs import untrained_embeddings
from experiments.settings.config import ExperimentConfig
from experiments.settings.initial_weights import is_file
from experiments.site.drawings import Drawings
from experiments.site.example_images import class_name, pictures
from experiments.site.retrieval_grid import drawn_queries, neighbors_of

_MIXED_UP = 6  # pairs of classes


def mean_score(units: Iterable[UnitRun]) -> float:
    """Average MAP@R on the test classes over finished runs."""
    return float(np.mean([unit.measured["test"]["MAP@R"] for unit in units]))


def verdict_of(units: Iterable[UnitRun]) -> str | None:
    """Say whether training helped, in a sentence; None without figures before and after."""
    known = [unit.measured for unit in units if unit.measured.get("untrained")]
    if not known:
        return None
    before, after = (
        {metric: float(np.mean([measured[moment][metric] for measured in known])) for metric in ("P@1", "MAP@R")}
        for moment in ("untrained", "test")
    )
    helped = training_did_not_help(after["MAP@R"], before["MAP@R"]) is None
    return (
        f"Training {'helped' if helped else 'did not help'}: the nearest photo is of the right class for "
        f"{100 * after['P@1']:.1f} % of the queries, {100 * before['P@1']:.1f} % before training "
        f"(MAP@R {100 * after['MAP@R']:.1f}, {100 * before['MAP@R']:.1f} before)."
    )


def first_look_record(
    unit: UnitRun,
    config: ExperimentConfig,
    load: Callable[[], Dataset],
    drawings: Drawings,
    cache_dir: str | None,
    num_queries: int,
    num_neighbors: int,
) -> dict[str, Any]:
    """Record neighbours before and after training, and mixed-up classes.

    `load` gives the data set, or raises `InvalidInput`, as do damaged test embeddings.
    """
    arrays, dataset = unit.test_embeddings(), load()
    labels, gallery = arrays["query_labels"], dataset.gallery
    searched = dataset.test if gallery is None else gallery
    found_labels = arrays.get("gallery_labels", labels)
    networks = {"trained": arrays}
    if _are_known(config.weights):
        networks = {"untrained": untrained_embeddings(config, dataset, cache_dir), **networks}

    def tiles(examples, indices, their_labels) -> list[dict[str, Any]]:
        shown = pictures(examples.subset(indices), config, dataset)
        names = [class_name(dataset, their_labels[index]) for index in indices]
        return [{"image": drawings.image(image), "name": name} for image, name in zip(shown, names)]

    rows = drawn_queries(labels, num_queries)
    lines: list[dict[str, Any]] = [
        {"query": query, "caption": "", "strips": []} for query in tiles(dataset.test, rows, labels)
    ]
    for name, embeddings in networks.items():
        found = neighbors_of(embeddings["queries"], embeddings.get("gallery"), rows, num_neighbors)
        hits = iter(tiles(searched, found.ravel(), found_labels))
        for line, row, places in zip(lines, rows, found):
            right = [bool(found_labels[place] == labels[row]) for place in places]
            strip = [{**next(hits), "is_right": is_right} for is_right in right]
            line["strips"].append({"title": name, "num_right": sum(right), "tiles": strip})
    pairs = []
    for query, place, count in _mixed_up(arrays, found_labels):
        pair = [*tiles(dataset.test, [query], labels), *tiles(searched, [place], found_labels)]
        total = int(np.isin(labels, [labels[query], found_labels[place]]).sum())
        pairs.append({"tiles": pair, "count": count, "total": total})
    return {"lines": lines, "pairs": pairs, "reason": ""}


def _are_known(weights: str) -> bool:
    """Check that weights can be loaded again: runs keep a file's digest only."""
    return weights != "none" and not is_file(weights)


def _mixed_up(arrays: dict[str, np.ndarray], found_labels: np.ndarray) -> list[tuple[int, int, int]]:
    """Return the pairs of classes that find each other first most often.

    A pair is a query, the first of what it finds, and the number of such queries of both classes, most first.
    """
    queries, labels, gallery = arrays["queries"], arrays["query_labels"], arrays.get("gallery")
    nearest = neighbors_of(queries, gallery, np.arange(len(queries)), 1)[:, 0]
    wrong = np.flatnonzero(found_labels[nearest] != labels)
    pairs = [tuple(sorted((int(labels[row]), int(found_labels[nearest[row]])))) for row in wrong]
    examples = dict(zip(reversed(pairs), reversed(wrong)))  # the first query of each pair
    return [
        (int(examples[pair]), int(nearest[examples[pair]]), count)
        for pair, count in Counter(pairs).most_common(_MIXED_UP)
    ]
