"""Neighbours of photos in an index: search, printing, table and page."""

from __future__ import annotations

import itertools
import os
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from common.pages.markup import plural
from photo_search.index import CalibratedRejection, EmbeddingIndex, Neighbors, QueryExpansion, Reranking
from photo_search.index.thresholds import accepted_pairs
from photo_search.photos.embedding import EmbeddingTable
from photo_search.photos.shown import Tile, aligned, shown_path, shown_similarity, shown_threshold, write_strips

_SAMPLE, _SAMPLED_NEIGHBOURS = 500, 10  # photos of the index, and the neighbours of each, that tell near from far
_MOSTLY = 0.8
_MOST_ROWS = 50_000  # with more, the sample takes longer than the queries
HEADER = ("query", "rank", "similarity", "label", "path")
KNOWN, UNLIKE = "known", "unlike everything in the index"


class Found(NamedTuple):
    """Results of one query."""

    query: str  # path
    label: str  # the query's class, "" if unknown
    ids: list[str]  # of its neighbours, nearest first
    labels: list[str]  # their classes, "" for none
    similarities: list[float]  # with the query
    verdict: str = ""  # `KNOWN` or `UNLIKE`; "" unless asked for


def find_neighbors(
    index: EmbeddingIndex,
    queries: EmbeddingTable,
    k: int,
    *,
    among: np.ndarray | None = None,
    approximate: bool = False,
    expansion: QueryExpansion | None = None,
    reranking: Reranking | None = None,
    reject: float | None = None,
) -> list[Found]:
    """Find each query's k nearest photos, except itself (by path).

    Embeddings of another model or length are refused, and a k larger than the index.

    Args:
        k, among, approximate, expansion, reranking: see `EmbeddingIndex.search`.
        reject: similarity of the nearest photo below which a query is `UNLIKE` the index; None: no verdict.
    """
    index.check_model(queries.model_digest)
    depth = k + 1 if k < (len(index) if among is None else len(among)) else k
    neighbors = index.search(
        queries.embeddings, depth, among=among, approximate=approximate, expansion=expansion, reranking=reranking
    )
    labels = queries.labels or [""] * len(queries.paths)
    return [_found(path, labels[row], neighbors, row, k, reject) for row, path in enumerate(queries.paths)]


def find_together(
    index: EmbeddingIndex,
    queries: EmbeddingTable,
    k: int,
    among: np.ndarray | None = None,
    rejection_of: Callable[[int], CalibratedRejection] | None = None,
) -> list[Found]:
    """Find the k classes nearest the photos of each label together, without these photos.

    Without labels, all photos are one query. The first photo stands for it. See `EmbeddingIndex.search_together`.

    Args:
        rejection_of: calibrates the verdict on a number of photos, by the first ones; None: no verdict.
    """
    index.check_model(queries.model_digest)
    own = {os.path.normpath(path) for path in queries.paths}
    rows = np.arange(len(index)) if among is None else among
    others = np.array([row for row in rows.tolist() if os.path.normpath(index.ids[row]) not in own], np.int64)
    labels = np.array(queries.labels or [""] * len(queries.paths))
    found = []
    for label in dict.fromkeys(labels.tolist()):
        photos = np.flatnonzero(labels == label)
        neighbors = index.search_together(queries.embeddings[photos], k, among=others)
        ids, similarities = neighbors.ids[0], neighbors.similarities[0].tolist()
        classes = neighbors.labels[0] if neighbors.labels else [""] * len(ids)
        verdict = ""
        if rejection_of is not None:
            rejection = rejection_of(len(photos))
            if rejection.together < len(photos):  # classes are too small for groups of as many
                first = queries.embeddings[photos[: rejection.together]]
                neighbors = index.search_together(first, 1, among=others)
            verdict = _verdict(neighbors.similarities[0].tolist(), rejection.threshold)
        found.append(Found(queries.paths[photos[0]], label, ids, classes, similarities, verdict))
    return found


def _found(path: str, label: str, neighbors: Neighbors, row: int, k: int, reject: float | None) -> Found:
    rows = neighbors.rows[row].tolist()
    ids = [neighbors.all_ids[each] for each in rows]
    own = os.path.normpath(path)
    kept = [place for place, each in enumerate(ids) if os.path.normpath(each) != own][:k]
    known = neighbors.all_labels
    similarities = [float(neighbors.similarities[row, place]) for place in kept]
    verdict = "" if reject is None else _verdict(similarities, reject)
    return Found(
        path,
        label,
        [ids[place] for place in kept],
        ["" if known is None else known[rows[place]] for place in kept],
        similarities,
        verdict,
    )


def _verdict(similarities: list[float], threshold: float) -> str:
    return UNLIKE if max(similarities, default=-np.inf) < threshold else KNOWN


def neighbor_table(found: list[Found]) -> tuple[tuple[str, ...], list[tuple[str | int | float, ...]]]:
    """Return a header and rows, one per neighbour, with any verdicts."""
    has_verdicts = any(each.verdict for each in found)
    header = (*HEADER[:-1], "verdict", HEADER[-1]) if has_verdicts else HEADER
    rows = [
        (each.query, rank, similarity, label, *([each.verdict] if has_verdicts else ()), path)
        for each in found
        for rank, (path, label, similarity) in enumerate(zip(each.ids, each.labels, each.similarities), 1)
    ]
    return header, rows


def shown_neighbors(found: list[Found]) -> str:
    """Align the neighbours of all queries in columns, below the path of each query."""
    header, rows = neighbor_table(found)
    lines = iter(aligned(header[1:], [row[1:] for row in rows]).splitlines())
    shown = [next(lines)]
    for each in found:
        shown += [shown_path(each.query), *itertools.islice(lines, len(each.ids))]
    return "\n".join(shown)


def rejection_sentence(found: CalibratedRejection) -> str:
    """Explain a threshold of `--reject` and its measured error rates."""
    known = f"{100 * found.rejected:.1f} % [{100 * found.low:.1f}, {100 * found.high:.1f}] of {found.num_known:,}"
    unknown = ""
    if found.detected is not None:
        labelled = "" if found.num_unknown == found.num_known else f" of the {found.num_unknown:,} with a class"
        unknown = f", and {100 * found.detected:.0f} %{labelled} if their class is left out"
    what = "photos" if found.together == 1 else f"groups of {found.together} photos"
    threshold = shown_threshold(found.threshold)
    return f"Threshold of --reject: {threshold}. It rejects {known} {what} of the index{unknown}."


def class_sentence(index: EmbeddingIndex) -> str:
    """State from which similarity on neighbours are mostly of their photo's class.

    It looks up a sample of the index's own photos. "" without classes, if no similarity tells them apart, or for a
    large index.
    """
    if len(index) > _MOST_ROWS:
        return ""
    labels = np.array(index.labels or ())
    rows = np.random.default_rng(0).permutation(np.flatnonzero(labels != ""))[:_SAMPLE]
    if len(rows) < 2:
        return ""
    found = index.neighbors_of(rows, min(_SAMPLED_NEIGHBOURS, len(index) - 1))
    others = labels[found.rows]
    known = others != ""
    similarities, accepted, correct = accepted_pairs(found.similarities[known], (others == labels[rows, None])[known])
    # The lower end of Wilson's interval, for the best of many thresholds is taken.
    z, share = 1.96, correct / accepted
    half = np.sqrt(share * (1 - share) / accepted + (z / accepted) ** 2 / 4)
    fitting = np.flatnonzero(share + z**2 / accepted / 2 - z * half >= _MOSTLY * (1 + z**2 / accepted))
    if not len(fitting):
        return ""
    least, shown = shown_threshold(similarities[fitting[-1]]), f"{100 * _MOSTLY:g} %"
    return f"In this index, at least {shown} of neighbours with a similarity of {least} or more are of the same class."


def write_page(path: str, found: list[Found], index_name: str, most: int) -> None:
    """Write a page with strips of the first `most` queries."""
    strips = [_strip(each) for each in found[:most]]
    queries = plural(len(found), "query", "queries")
    shown = f"the first {most} of {queries}" if len(found) > most else queries
    write_strips(path, "Neighbours", f"Nearest photos in {index_name}, for {shown}, with their similarities.", strips)


def _strip(found: Found) -> list[Tile]:
    tiles = [Tile(found.query, found.verdict if found.verdict == UNLIKE else "", found.label, "query")]
    for path, label, similarity in zip(found.ids, found.labels, found.similarities):
        role = ("right" if label == found.label else "wrong") if label and found.label else ""
        tiles.append(Tile(path, shown_similarity(similarity), label, role))
    return tiles


def precision_sentence(found: list[Found]) -> str:
    """State the mean share of neighbours of the query's class.

    Photos without a class are left out and counted. "" if no photo is left.
    """
    judged = [(each.label, [label for label in each.labels if label]) for each in found if each.label]
    shares = [np.mean([label == own for label in labels]) for own, labels in judged if labels]
    if not shares:
        return ""
    num_queries = len(found) - len(judged)
    num_neighbors = sum(not label for each in found if each.label for label in each.labels)
    left_out = [
        plural(number, *names)
        for number, names in ((num_queries, ("query", "queries")), (num_neighbors, ("neighbour",)))
        if number
    ]
    counted = f" Left out, without a class: {' and '.join(left_out)}." if left_out else ""
    return f"{100 * np.mean(shares):.1f} % of the neighbours are of their query's class.{counted}"
