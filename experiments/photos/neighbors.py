"""Neighbours of photos in an index: search, printing, table and page."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from common.index import EmbeddingIndex, Neighbors, QueryExpansion, Reranking
from experiments.photos.embedding_tables import EmbeddingTable
from experiments.photos.shown import Tile, shown_similarity, write_strips
from experiments.site.markup import plural

HEADER = ("query", "rank", "similarity", "label", "path")


class Found(NamedTuple):
    """Results of one query.

    Attributes:
        query: path.
        label: the query's class, "" where it is unknown.
        ids: of its neighbours, nearest first.
        labels: their classes, "" for none.
        similarities: with the query.
    """

    query: str
    label: str
    ids: list[str]
    labels: list[str]
    similarities: list[float]


def find_neighbors(
    index: EmbeddingIndex,
    queries: EmbeddingTable,
    k: int,
    *,
    among: np.ndarray | None = None,
    approximate: bool = False,
    expansion: QueryExpansion | None = None,
    reranking: Reranking | None = None,
) -> list[Found]:
    """Find each query's k nearest photos, except itself (by path).

    Args:
        index: to search.
        queries: photos of the model that made the index.
        k, among, approximate, expansion, reranking: see `EmbeddingIndex.search`.

    Raises:
        InvalidInput: embeddings of another model or length, or k larger than the index.
    """
    index.check_model(queries.model_digest)
    depth = k + 1 if k < (len(index) if among is None else len(among)) else k
    neighbors = index.search(
        queries.embeddings, depth, among=among, approximate=approximate, expansion=expansion, reranking=reranking
    )
    labels = queries.labels or [""] * len(queries.paths)
    return [_found(path, labels[row], neighbors, row, k) for row, path in enumerate(queries.paths)]


def _found(path: str, label: str, neighbors: Neighbors, row: int, k: int) -> Found:
    rows = neighbors.rows[row].tolist()
    ids = [neighbors.all_ids[each] for each in rows]
    kept = [place for place, each in enumerate(ids) if each != path][:k]
    known = neighbors.all_labels
    return Found(
        path,
        label,
        [ids[place] for place in kept],
        ["" if known is None else known[rows[place]] for place in kept],
        [float(neighbors.similarities[row, place]) for place in kept],
    )


def neighbor_rows(found: list[Found]) -> list[tuple[str, int, float, str, str]]:
    """Return a row per neighbour, as `HEADER`."""
    return [
        (each.query, rank, similarity, label, path)
        for each in found
        for rank, (path, label, similarity) in enumerate(zip(each.ids, each.labels, each.similarities), 1)
    ]


def write_page(path: str, found: list[Found], index_name: str, most: int) -> None:
    """Write a page with strips of the first `most` queries."""
    strips = [_strip(each) for each in found[:most]]
    queries = plural(len(found), "query", "queries")
    shown = f"the first {most} of {queries}" if len(found) > most else queries
    write_strips(path, "Neighbours", f"Nearest photos in {index_name}, for {shown}, with their similarities.", strips)


def _strip(found: Found) -> list[Tile]:
    tiles = [Tile(found.query, "", found.label, "query")]
    for path, label, similarity in zip(found.ids, found.labels, found.similarities):
        role = ("right" if label == found.label else "wrong") if label and found.label else ""
        tiles.append(Tile(path, shown_similarity(similarity), label, role))
    return tiles


def precision_of(found: list[Found]) -> float | None:
    """Average the share of neighbours of the query's class; None if unknown."""
    shares = [
        np.mean([label == each.label for label in each.labels]) for each in found if each.label and any(each.labels)
    ]
    return float(np.mean(shares)) if shares else None
