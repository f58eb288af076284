"""Approximate search by a database's HNSW graph, with measured recall."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from common import retrieval
from photo_search.index.similarity import search_similarity, similarities_of

KINDS = ("hnsw",)
TARGET_RECALL = 0.95
_LEAST_EFFORT, MOST_EFFORT = 16, 1000  # the most that pgvector takes as `hnsw.ef_search`
_RECALL_DEPTH = 10

Proposed = Callable[[np.ndarray, int, int], np.ndarray]  # from queries, count and effort to rows `[queries, count]`


class ApproximateSearch(NamedTuple):
    """Measured recall of a graph over all rows of an `EmbeddingIndex`.

    Attributes:
        kind: "hnsw" (Malkov and Yashunin 2018).
        rows: number of rows.
        effort: `ef_search` of the graph.
        recall_at_10: share of the ten exactly nearest rows that it finds, mean over `num_queries` indexed rows, each
            without itself (of fewer than ten if there are fewer).
        num_queries: of that measurement.
        target_recall: that the build was asked for.
    """

    kind: str
    rows: int
    effort: int
    recall_at_10: float
    num_queries: int
    target_recall: float = TARGET_RECALL


def measure_recall(
    proposed: Proposed, embeddings: np.ndarray, metric: str, *, target_recall: float, num_queries: int, seed: int
) -> ApproximateSearch:
    """Find the effort of a graph that reaches a recall against exact search.

    The effort is doubled until the recall at 10 of a sample of the rows reaches the target, or until it is 1,024.

    Args:
        proposed: the graph's search.
        embeddings: `[rows, dim]` as an index stores them.
        metric: of the index.
        target_recall: in (0, 1].
        num_queries: rows drawn to measure the recall with.
        seed: of the draw.

    Returns:
        The recall reached, which may lie below the target.
    """
    sample = np.sort(np.random.default_rng(seed).permutation(len(embeddings))[:num_queries])
    depth = min(_RECALL_DEPTH, len(embeddings) - 1)
    queries = np.asarray(embeddings[sample], np.float32)
    similarity = search_similarity(metric)
    exact = retrieval.find_nearest_neighbors(queries, embeddings, num_neighbors=depth + 1, similarity=similarity)
    exact = without_own_row(exact, sample)
    effort = _LEAST_EFFORT
    while True:
        rows = best_of(queries, embeddings, proposed(queries, depth + 1, effort), depth + 1, metric)
        recall = recall_of(without_own_row(rows, sample), exact)
        if recall >= target_recall or effort >= MOST_EFFORT:
            return ApproximateSearch(KINDS[0], len(embeddings), effort, recall, len(sample), target_recall)
        effort = min(2 * effort, MOST_EFFORT)


def recall_of(found: np.ndarray, exact: np.ndarray) -> float:
    """Return the share of exact neighbours `[queries, k]` in `found` `[queries, k]`."""
    hits = [len(np.intersect1d(row, truth)) for row, truth in zip(found, exact)]
    return float(np.sum(hits) / exact.size)


def without_own_row(neighbors: np.ndarray, own: np.ndarray) -> np.ndarray:
    """Drop each query's own row from neighbours `[queries, k + 1]`.

    Own rows are `[queries]`, the result `[queries, k]`. A query without its own row loses its last neighbour.
    """
    is_own = neighbors == own[:, np.newaxis]
    is_own[~is_own.any(axis=1), -1] = True
    return neighbors[~is_own].reshape(len(neighbors), neighbors.shape[1] - 1)


def best_of(queries: np.ndarray, embeddings: np.ndarray, rows: np.ndarray, k: int, metric: str) -> np.ndarray:
    """Return the k most similar of proposed rows `[queries, proposed]`.

    The best come first; equal ones are ordered by row. -1 marks an absent row, in the proposals and in the result.
    """
    similarities = similarities_of(queries, embeddings, rows, search_similarity(metric))
    order = np.lexsort((rows, -similarities), axis=1)[:, :k]
    return np.take_along_axis(rows, order, axis=1)
