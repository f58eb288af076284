"""Metrics of classes: accuracy of the nearest class mean, retrieval by class."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from common.errors import InvalidInput, invalid
from common.retrieval.evaluator import RetrievalResult
from common.retrieval.exact_scale import brought_to_one
from common.retrieval.labels import codes_of_both, integer_labels
from common.retrieval.search.blocked_search import slices

_DISTANCES_AT_ONCE = 2**20


def nearest_centroid_accuracy(
    embeddings: np.ndarray,
    labels: np.ndarray,
    gallery_embeddings: np.ndarray | None = None,
    gallery_labels: np.ndarray | None = None,
) -> float:
    """Return the share of queries whose nearest class mean is of their class.

    Means are those of the gallery's classes, distances Euclidean. Without a gallery, the mean of a query's own class is
    that of the class's other items. Queries without an item of their class do not count. Of equally near means that of
    the smallest label wins.

    Reference: Mensink, Verbeek, Perronnin, Csurka: Distance-Based Image Classification, TPAMI 2013 (nearest class
    mean).

    Args:
        embeddings, labels: of the queries, `[queries, dim]` and integers `[queries]`, used as they are.
        gallery_embeddings, gallery_labels: `[gallery, dim]` and `[gallery]`; None: the queries themselves.

    Raises:
        InvalidInput: embeddings that are not finite, wrong labels, or no query with an item of its class.

    Examples:
        >>> nearest_centroid_accuracy(np.float32([[0], [1], [5], [6]]), np.array([7, 7, 8, 8]))
        1.0
    """
    alone = gallery_embeddings is None
    embeddings = np.asarray(embeddings)
    queries, gallery = codes_of_both(embeddings, labels, gallery_embeddings, gallery_labels)
    rows = embeddings if gallery_embeddings is None else np.concatenate([embeddings, np.asarray(gallery_embeddings)])
    points = brought_to_one("embeddings", rows)[0]
    points -= points.mean(axis=0)
    items = points if alone else points[len(queries) :]
    present, gallery = np.unique(gallery, return_inverse=True)
    sizes = np.bincount(gallery)
    sums = np.zeros((len(present), points.shape[1]))
    np.add.at(sums, gallery, items)
    place = np.minimum(np.searchsorted(present, queries), len(present) - 1)  # [queries]: of the own class's mean
    counted = np.flatnonzero((present[place] == queries) & (sizes[place] > alone))
    if not len(counted):
        raise InvalidInput("Invalid labels: received no query with another item of its class to average.")
    means, correct = sums / sizes[:, np.newaxis], 0
    for part in slices(len(counted), max(1, _DISTANCES_AT_ONCE // len(means))):
        chosen = counted[part]
        x, own = points[chosen], place[chosen]
        squares = (means**2).sum(axis=1) - 2 * x @ means.T  # less |x|²
        if alone:
            others = (sums[own] - x) / (sizes[own] - 1)[:, np.newaxis]
            squares[np.arange(len(own)), own] = (others**2).sum(axis=1) - 2 * (x * others).sum(axis=1)
        correct += int((squares.argmin(axis=1) == own).sum())
    return correct / len(counted)


class ClassTable(NamedTuple):
    """Retrieval by class of the queries, in the order of the labels.

    Attributes:
        labels: of the classes with an evaluated query `[classes]`.
        num_queries: evaluated `[classes]`.
        sums: of each metric by name, over each class's queries `[classes]`, float64.
    """

    labels: np.ndarray
    num_queries: np.ndarray
    sums: Mapping[str, np.ndarray]

    @property
    def means(self) -> dict[str, np.ndarray]:
        """Each metric's mean over each class's queries `[classes]`, by name."""
        return {name: of_classes / self.num_queries for name, of_classes in self.sums.items()}

    @property
    def precision_at_1(self) -> np.ndarray:
        """The mean P@1 of each class `[classes]`."""
        return self.means["P@1"]

    @property
    def r_precision(self) -> np.ndarray:
        """The mean P@R of each class `[classes]`."""
        return self.means["P@R"]

    @property
    def map_at_r(self) -> np.ndarray:
        """The mean MAP@R of each class `[classes]`."""
        return self.means["MAP@R"]


def class_table(result: RetrievalResult, query_labels: np.ndarray) -> ClassTable:
    """Sum and average the metrics of each class's queries.

    Args:
        result: of `evaluate_retrieval`.
        query_labels: integers `[queries]`, of all queries that it was given.

    Raises:
        InvalidInput: labels that are no integers, or too few.

    Examples:
        >>> from common.retrieval import evaluate_retrieval
        >>> labels = np.array([7, 7, 8, 8])
        >>> class_table(evaluate_retrieval(np.float32([[0], [1], [5], [6]]), labels), labels).map_at_r
        array([1., 1.])
    """
    labels = integer_labels("query labels", query_labels, len(query_labels))
    if result.query_rows[-1] >= len(labels):
        raise invalid("query labels", received=len(labels), expected="as many as queries of the result")
    classes, codes, counts = np.unique(labels[result.query_rows], return_inverse=True, return_counts=True)
    sums = {name: np.bincount(codes.ravel(), of_queries) for name, of_queries in result.per_query.items()}
    return ClassTable(classes, counts, sums)
