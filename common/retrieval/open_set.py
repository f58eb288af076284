"""Open-set rejection: queries of unknown classes, by the similarity of their nearest neighbour."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from common.errors import InvalidInput
from common.retrieval.labels import codes_of_both
from common.retrieval.search.nearest_neighbors import NeighborSearch


class OpenSetResult(NamedTuple):
    """Separation of queries with a class in the gallery from those without.

    Attributes:
        area_under_roc: probability that a known query is nearer to the gallery than an unknown one; ties count half.
        false_positive_rate: share of unknown queries accepted where at least 95 % of the known are (FPR95).
        num_known: queries whose class is in the gallery.
        num_unknown: the others.
    """

    area_under_roc: float
    false_positive_rate: float
    num_known: int
    num_unknown: int


def open_set_rejection(
    query_embeddings: np.ndarray,
    query_labels: np.ndarray,
    gallery_embeddings: np.ndarray | None = None,
    gallery_labels: np.ndarray | None = None,
    *,
    similarity: str = "euclidean",
) -> OpenSetResult:
    """Measure how well the nearest neighbour's similarity rejects unknown classes.

    Unknown are queries whose class is not in the gallery. Without a gallery, each query excludes itself, so classes of
    one item are unknown. Neighbours are exact, in bounded memory; see `find_nearest_neighbors`.

    Args:
        query_embeddings, query_labels: `[queries, dim]` and integers `[queries]`, used as they are (not normalised).
        gallery_embeddings, gallery_labels: `[gallery, dim]` and `[gallery]`; None: the queries themselves.
        similarity: "euclidean" or "inner_product".

    Raises:
        InvalidInput: embeddings that are not finite, wrong labels, or no known or no unknown query.

    Examples:
        >>> gallery, queries = np.float32([[0], [5]]), np.float32([[0.1], [5.2], [9]])
        >>> open_set_rejection(queries, np.array([0, 1, 2]), gallery, np.array([0, 1])).area_under_roc
        1.0
    """
    query_embeddings = np.asarray(query_embeddings)
    gallery = None if gallery_embeddings is None else np.asarray(gallery_embeddings)
    query_codes, gallery_codes = codes_of_both(query_embeddings, query_labels, gallery, gallery_labels)
    sizes = np.bincount(gallery_codes, minlength=int(query_codes.max(initial=0)) + 1)
    known = sizes[query_codes] > (gallery is None)
    if known.all() or not known.any():
        raise InvalidInput(
            f"Invalid labels: received {known.sum()} queries with their class in the gallery and {(~known).sum()} "
            "without, expected some of each."
        )
    search = NeighborSearch(query_embeddings, gallery, similarity=similarity)
    nearest = np.empty(len(known), np.float64)

    def keep(rows: np.ndarray, neighbors: np.ndarray) -> None:
        nearest[rows] = search.bounds.exact(rows, neighbors[:, 0])

    search.visit(np.ones(len(known), np.int64), keep)
    inside, outside = np.sort(nearest[known]), np.sort(nearest[~known])
    below = (np.searchsorted(outside, inside) + np.searchsorted(outside, inside, side="right")).sum() / 2
    threshold = inside[int(0.05 * len(inside) + 1e-9)]  # the highest that at least 95 % of the known reach
    return OpenSetResult(
        area_under_roc=float(below / (len(inside) * len(outside))),
        false_positive_rate=float(np.mean(outside >= threshold)),
        num_known=len(inside),
        num_unknown=len(outside),
    )
