"""Open-set rejection: queries of unknown classes, by the similarity of their nearest neighbour."""

from __future__ import annotations

from collections.abc import Collection
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
        identified_at_1, identified_at_5: detection and identification rate at rank 1: share of known queries that are
            nearest to an item of their class, and nearer than all but 1 % (5 %) of the unknown are to theirs.
        num_known: queries whose class is in the gallery.
        num_unknown: the others.
    """

    area_under_roc: float
    false_positive_rate: float
    identified_at_1: float
    identified_at_5: float
    num_known: int
    num_unknown: int

    def as_dict(self) -> dict[str, float]:
        """Return the shares by their printed names."""
        return dict(zip(("OS-AUROC", "OS-FPR95", "OS-R1@1%", "OS-R1@5%"), self))


def open_set_rejection(
    query_embeddings: np.ndarray,
    query_labels: np.ndarray,
    gallery_embeddings: np.ndarray | None = None,
    gallery_labels: np.ndarray | None = None,
    *,
    similarity: str = "euclidean",
    left_out: Collection[int] = (),
) -> OpenSetResult:
    """Measure how well the nearest neighbour's similarity rejects unknown classes.

    Unknown are queries whose class is not in the gallery. Without a gallery, each query excludes itself, so classes of
    one item are unknown. Neighbours are exact, in bounded memory; see `find_nearest_neighbors`.

    Args:
        query_embeddings, query_labels: `[queries, dim]` and integers `[queries]`, used as they are (not normalised).
        gallery_embeddings, gallery_labels: `[gallery, dim]` and `[gallery]`; None: the queries themselves.
        similarity: "euclidean" or "inner_product".
        left_out: labels whose items no query may find, which makes their queries unknown.

    Reference: P. Phillips, P. Grother, R. Micheals: Evaluation Methods in Face Recognition, Handbook of Face
    Recognition 2011 (detection and identification rate).

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
    kept = ~np.isin(np.asarray(query_labels if gallery is None else gallery_labels), list(left_out))
    gallery_codes = gallery_codes[kept]
    sizes = np.bincount(gallery_codes, minlength=int(query_codes.max(initial=0)) + 1)
    known = sizes[query_codes] > (gallery is None)
    if known.all() or not known.any():
        raise InvalidInput(
            f"Invalid labels: received {known.sum()} queries with their class in the gallery and {(~known).sum()} "
            "without, expected some of each."
        )
    nearest, found = np.empty(len(known), np.float64), np.empty(len(known), np.int64)
    everyone = np.ones(len(known), bool)
    parts = [(kept, None), (~kept, query_embeddings[kept])] if gallery is None else [(everyone, gallery[kept])]
    for asked, among in parts:
        if asked.any():
            nearest[asked], found[asked] = _nearest(query_embeddings[asked], among, similarity)
    correct = np.sort(nearest[known & (gallery_codes[found] == query_codes)])
    inside, outside = np.sort(nearest[known]), np.sort(nearest[~known])
    below = (np.searchsorted(outside, inside) + np.searchsorted(outside, inside, side="right")).sum() / 2
    threshold = inside[int(0.05 * len(inside) + 1e-9)]  # the highest that at least 95 % of the known reach

    def identified(false_alarms: float) -> float:
        limit = outside[len(outside) - 1 - int(false_alarms * len(outside) + 1e-9)]
        return (len(correct) - int(np.searchsorted(correct, limit, side="right"))) / len(inside)

    return OpenSetResult(
        area_under_roc=float(below / (len(inside) * len(outside))),
        false_positive_rate=float(np.mean(outside >= threshold)),
        identified_at_1=identified(0.01),
        identified_at_5=identified(0.05),
        num_known=len(inside),
        num_unknown=len(outside),
    )


def _nearest(queries: np.ndarray, gallery: np.ndarray | None, similarity: str) -> tuple[np.ndarray, np.ndarray]:
    """Return the similarity and the row of each query's nearest item `[queries]`."""
    search = NeighborSearch(queries, gallery, similarity=similarity)
    nearest, found = np.empty(len(queries), np.float64), np.empty(len(queries), np.int64)

    def keep(rows: np.ndarray, neighbors: np.ndarray) -> None:
        found[rows], nearest[rows] = neighbors[:, 0], search.bounds.exact(rows, neighbors[:, 0])

    search.visit(np.ones(len(queries), np.int64), keep)
    return nearest, found
