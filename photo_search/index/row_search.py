"""Search among stored rows: exact, approximate, or re-ranked."""

from __future__ import annotations

import numpy as np

from common import retrieval
from photo_search.index.approximate import ApproximateSearch, best_of
from photo_search.index.few_queries import nearest_units
from photo_search.index.reranking import Reranking, k_reciprocal_distances
from photo_search.index.similarity import search_similarity

_FEW_QUERIES = 256  # with more, the project's exact search is faster


def nearest_exactly(queries: np.ndarray, embeddings: np.ndarray, k: int, metric: str) -> np.ndarray:
    """Return the nearest rows `[queries, k]`, int64, of `embeddings` `[rows, dim]`.

    Nearest first, equal ones by row. Few queries skip the preparations of `find_nearest_neighbors`; the result is the
    same.
    """
    if metric == "cosine" and len(queries) <= _FEW_QUERIES and k <= len(embeddings) // 32:
        return nearest_units(queries, embeddings, k)
    similarity = search_similarity(metric)
    return retrieval.find_nearest_neighbors(queries, embeddings, num_neighbors=k, similarity=similarity)


def nearest_approximately(
    queries: np.ndarray, embeddings: np.ndarray, k: int, metric: str, search: ApproximateSearch
) -> np.ndarray:
    """Search by an approximate index, and exactly among the rows beyond it.

    A query with fewer than k found rows is searched exactly.
    """
    rows = search.candidates(queries, k)
    added = len(embeddings) - search.rows
    if added:
        tail = nearest_exactly(queries, embeddings[search.rows :], min(k, added), metric)
        rows = np.concatenate([rows, tail + search.rows], axis=1)
    if rows.shape[1] < k:
        return nearest_exactly(queries, embeddings, k, metric)
    rows = best_of(queries, embeddings, rows, k, metric)
    incomplete = np.flatnonzero((rows < 0).any(axis=1))
    if len(incomplete):
        rows[incomplete] = nearest_exactly(queries[incomplete], embeddings, k, metric)
    return rows


def reranked(queries: np.ndarray, embeddings: np.ndarray, rows: np.ndarray, reranking: Reranking) -> np.ndarray:
    """Sort each query's rows `[queries, candidates]` by their mutual k-reciprocal distances."""
    ordered = np.empty_like(rows)
    for place, (query, candidates) in enumerate(zip(queries, rows)):
        distances = k_reciprocal_distances(
            query[np.newaxis],
            embeddings[candidates],
            k1=reranking.k1,
            k2=reranking.k2,
            original_weight=reranking.original_weight,
        )
        ordered[place] = candidates[np.argsort(distances[0], kind="stable")]
    return ordered
