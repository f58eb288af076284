"""A run's drawings: retrieved images, attention, a map, a report's beginning."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np

from common import retrieval
from common.backbones.initial_weights import is_file
from common.data import Dataset, Examples
from common.diagnostics.plane import FEWEST_POINTS, perplexity_of, plane
from common.errors import InvalidInput
from experiments.protocols.attention import attention_of, overlays
from experiments.reports.training_effect import training_did_not_help
from experiments.rows.rows import UNTRAINED, Row
from experiments.runs.evaluation import untrained_embeddings
from experiments.runs.pooling_weights import has_weights
from experiments.runs.trained_model import DataFolder, load_trained_model
from experiments.settings import build
from experiments.settings.config import ExperimentConfig
from experiments.site.drawings import Drawings

_MIXED_UP = 6  # pairs of classes
_PER_CLASS = 30  # examples on the map


class DrawnRun(NamedTuple):
    """A finished run whose test results are drawn.

    Damaged test embeddings raise `InvalidInput`.
    """

    row: Row
    config: ExperimentConfig
    data: DataFolder
    drawings: Drawings

    def dataset(self) -> Dataset:
        """Load the run's data set, or raise `InvalidInput`."""
        return self.data.dataset_of(self.row)

    def retrieval(self, num_queries: int, num_neighbors: int) -> dict[str, Any]:
        """Record a query per class with its nearest neighbours, right or wrong.

        Without pictures (no data set, or none in it), classes have only names or numbers.
        """
        arrays = self.row.test_embeddings()
        labels, gallery = arrays["query_labels"], arrays.get("gallery")
        found_labels = labels if gallery is None else arrays["gallery_labels"]
        rows = drawn_queries(labels, num_queries)
        neighbors = neighbors_of(arrays["queries"], gallery, rows, num_neighbors)
        try:
            dataset, reason = self.dataset(), ""
        except InvalidInput as error:
            dataset, reason = None, str(error)
        test, others = (None, None) if dataset is None else (dataset.test, dataset.gallery)
        queries = self._tiles(dataset, test, rows, labels)
        hits = self._tiles(dataset, test if gallery is None else others, neighbors.ravel(), found_labels)
        for hit, index, query in zip(hits, neighbors.ravel(), np.repeat(rows, neighbors.shape[1])):
            hit["is_right"] = bool(found_labels[index] == labels[query])
        lines = [
            {"query": query, "found": hits[start : start + neighbors.shape[1]]}
            for query, start in zip(queries, range(0, len(hits), neighbors.shape[1]))
        ]
        return {"lines": lines, "is_incomplete": dataset is None, "reason": reason}

    def attention(self, num_images: int, num_prototypes: int) -> dict[str, Any]:
        """Record attention over test images, in total and by most used prototypes."""
        if self.config.pooling == "gap":
            return {"lines": [], "reason": "Average pooling looks everywhere alike, so there is nothing to draw."}
        if self.config.backbone == "token_embedding":
            return {"lines": [], "reason": "Bags of tokens have no picture to lay attention over."}
        try:
            trained = load_trained_model(self.row.folder, dataset=self.dataset(), cache_dir=self.data.cache_dir)
        except InvalidInput as error:
            return {"lines": [], "reason": str(error), "is_incomplete": True}
        if not has_weights(trained.model.head.pooling):
            return {"lines": [], "reason": f"The pooling {self.config.pooling} gives positions no weights."}
        captions = "the image", "weight {:.2f} to {:.2f} times the average's", "{}: {:.0f} % of the weight"
        lines = []
        for attention in attention_of(trained, num_images, num_prototypes):
            panels = overlays(attention, *captions)
            drawn = [{"caption": caption, "image": self.drawings.image(255 * pixels)} for caption, pixels in panels]
            lines.append({"name": attention.name, "panels": drawn})
        return {"lines": lines, "reason": ""}

    def map(self, num_classes: int) -> dict[str, Any]:
        """Map test embeddings of some classes, the retrieval grid's included, by t-SNE."""
        arrays = self.row.test_embeddings()
        labels = arrays["query_labels"]
        classes = _shown_classes(labels, num_classes)
        rows = np.concatenate([np.flatnonzero(labels == label)[:_PER_CLASS] for label in classes])
        if len(rows) < FEWEST_POINTS:
            return {"classes": [], "reason": f"A map needs {FEWEST_POINTS} examples or more; there are {len(rows)}."}
        try:
            dataset = self.dataset()
        except InvalidInput:
            dataset = None
        places = plane(np.asarray(arrays["queries"][rows], np.float32))
        drawn = [
            {"name": _class_name(dataset, label), "points": np.round(places[labels[rows] == label], 3).tolist()}
            for label in classes
        ]
        return {
            "classes": drawn,
            "reason": "",
            "num_classes": len(np.unique(labels)),
            "perplexity": perplexity_of(len(rows)),
            "is_incomplete": dataset is None,
        }

    def first_look(self, num_queries: int, num_neighbors: int) -> dict[str, Any]:
        """Record neighbours before and after training, and mixed-up classes."""
        arrays, dataset = self.row.test_embeddings(), self.dataset()
        labels = arrays["query_labels"]
        searched = dataset.test if dataset.gallery is None else dataset.gallery
        found_labels = arrays.get("gallery_labels", labels)
        networks = {"trained": arrays}
        if _are_known(self.config.weights):
            networks = {"untrained": untrained_embeddings(self.config, dataset, self.data.cache_dir), **networks}
        rows, mixed = drawn_queries(labels, num_queries), _mixed_up(arrays, found_labels)
        found = {
            name: neighbors_of(embeddings["queries"], embeddings.get("gallery"), rows, num_neighbors)
            for name, embeddings in networks.items()
        }
        queries = self._tiles(dataset, dataset.test, np.array([*rows, *(query for query, *_ in mixed)]), labels)
        searched_for = [*found.values(), np.array([place for _, place, _ in mixed], int)]
        hits = iter(self._tiles(dataset, searched, np.concatenate(searched_for, axis=None), found_labels))
        lines: list[dict[str, Any]] = [{"query": query, "caption": "", "strips": []} for query in queries[: len(rows)]]
        for name, neighbors in found.items():
            for line, row, places in zip(lines, rows, neighbors):
                right = [bool(found_labels[place] == labels[row]) for place in places]
                strip = [{**next(hits), "is_right": is_right} for is_right in right]
                line["strips"].append({"title": name, "num_right": sum(right), "tiles": strip})
        pairs = []
        for first, (query, place, count) in zip(queries[len(rows) :], mixed):
            total = int(np.isin(labels, [labels[query], found_labels[place]]).sum())
            pairs.append({"tiles": [first, next(hits)], "count": count, "total": total})
        return {"lines": lines, "pairs": pairs, "reason": ""}

    def _tiles(
        self, dataset: Dataset | None, examples: Examples | None, indices: np.ndarray, labels: np.ndarray
    ) -> list[dict[str, Any]]:
        """Return classes and, if there are any, files and pictures of some examples."""
        tiles: list[dict[str, Any]] = [{"name": _class_name(dataset, labels[index])} for index in indices]
        if dataset is None or examples is None or dataset.kind == "tokens":
            return tiles
        chosen = examples.subset(indices)
        if chosen.paths is not None:
            tiles = [{**tile, "file": os.path.abspath(path)} for tile, path in zip(tiles, chosen.file_names)]
        distinct, numbers = np.unique(indices, return_inverse=True)
        batches = build.build_inputs(self.config, dataset)(examples.subset(distinct))
        drawn = [self.drawings.image(image) for image in np.concatenate([np.asarray(batch) for batch in batches])]
        return [{**tile, "image": drawn[number]} for tile, number in zip(tiles, numbers)]


def mean_score(runs: Iterable[Row]) -> float:
    """Average MAP@R on the test classes over finished runs."""
    return float(np.mean([row["test"]["MAP@R"] for row in runs]))


def verdict_of(runs: Iterable[Row]) -> str | None:
    """Say whether training helped, in a sentence; None without figures before and after."""
    known = [row for row in runs if row[UNTRAINED]]
    if not known:
        return None
    before, after = (
        {metric: float(np.mean([row[moment][metric] for row in known])) for metric in ("MAP@R", "P@1")}
        for moment in (UNTRAINED, "test")
    )
    helped = training_did_not_help(after["MAP@R"], before["MAP@R"]) is None
    return (
        f"Training {'helped' if helped else 'did not help'}: the nearest photo is of the right class for "
        f"{100 * after['P@1']:.1f} % of the queries, {100 * before['P@1']:.1f} % before training "
        f"(MAP@R {100 * after['MAP@R']:.1f}, {100 * before['MAP@R']:.1f} before)."
    )


def _shown_classes(labels: np.ndarray, count: int) -> np.ndarray:
    """Draw classes of `labels` `[examples]` with two or more, alike for every method."""
    classes, sizes = np.unique(labels, return_counts=True)
    eligible = classes[sizes >= 2] if (sizes >= 2).any() else classes
    return np.random.default_rng(0).permutation(eligible)[:count]


def drawn_queries(labels: np.ndarray, count: int) -> np.ndarray:
    """Draw an example of each of some classes, whatever is found for it."""
    generator = np.random.default_rng(1)
    return np.array([generator.choice(np.flatnonzero(labels == label)) for label in _shown_classes(labels, count)])


def neighbors_of(queries: np.ndarray, gallery: np.ndarray | None, rows: np.ndarray, count: int) -> np.ndarray:
    """Search as the evaluation does: indices `[rows, count]`, nearest first, without the query.

    Without a gallery, the queries `[examples, dim]` are searched.
    """
    if gallery is not None:
        return retrieval.find_nearest_neighbors(queries[rows], gallery, num_neighbors=min(count, len(gallery)))
    count = min(count, len(queries) - 1)
    found = retrieval.find_nearest_neighbors(queries[rows], queries, num_neighbors=count + 1)
    return np.array([[index for index in line if index != row][:count] for row, line in zip(rows, found)])


def _class_name(dataset: Dataset | None, label: int) -> str:
    """Return the name of a class, or its number."""
    return str(dataset.class_names[label]) if dataset is not None and len(dataset.class_names) else f"class {label}"


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
