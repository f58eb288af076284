"""k-reciprocal re-ranking: mutual neighbours of the query move up."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from common.errors import check_fraction, check_positive, invalid

_MOST_ITEMS = 20_000  # 3 GB of float32 distances and encodings


class Reranking(NamedTuple):
    """Settings of k-reciprocal re-ranking; k1, k2 and weight by Zhong et al.

    Attributes:
        num_candidates: nearest rows of the index that each query re-ranks. Only they and the query enter its lists of
            neighbours, so its answer depends on no other query and not on the size of the index. (The paper uses the
            whole gallery and all queries.)
        k1: depth of the lists that define reciprocal neighbours.
        k2: nearest items whose encodings are averaged; 1 averages none.
        original_weight: lambda, the weight of the original distance.
    """

    num_candidates: int = 100
    k1: int = 20
    k2: int = 6
    original_weight: float = 0.3


def k_reciprocal_distances(
    queries: np.ndarray, gallery: np.ndarray, *, k1: int = 20, k2: int = 6, original_weight: float = 0.3
) -> np.ndarray:
    """Mix the original distance with the Jaccard distance of k-reciprocal neighbours.

    With d the squared Euclidean distance, N(p, k) the item p and the k nearest to it among queries and gallery,
    and R(p, k) those of N(p, k) that have p in their own N(., k):

        R*(p) = R(p, k1), and R(q, k1/2) for each q in R(p, k1) with |R(p, k1) & R(q, k1/2)| >= 2/3 |R(q, k1/2)|
        V(p)[g] = exp(-d(p, g)) for g in R*(p), else 0, over its sum; then the mean of V over the k2 nearest of p with p
        d*(p, g) = (1 - lambda) (1 - sum min(V(p), V(g)) / sum max(V(p), V(g))) + lambda d(p, g)

    Reference: Z. Zhong, L. Zheng, D. Cao, S. Li: Re-ranking Person Re-identification with k-reciprocal Encoding, CVPR
    2017, equations 2 to 12. As in the paper, and unlike the authors' code, d is not divided by the largest distance, so
    embeddings should have unit norm. k1/2 is rounded to the nearest even integer at halves, as in their code.

    Args:
        queries: embeddings `[queries, dim]`.
        gallery: embeddings `[gallery, dim]`; with the queries at most 20,000, since all pairs are held in memory.
        k1, k2: at least 1.
        original_weight: lambda, in [0, 1].

    Returns:
        Distances `[queries, gallery]`, float64; smaller is nearer.

    Raises:
        InvalidInput: a setting out of range, or too many items.
    """
    check_positive("k1", k1)
    check_positive("k2", k2)
    check_fraction("original_weight", original_weight, zero_allowed=True)
    items = np.concatenate([queries, gallery]).astype(np.float64)
    if len(items) > _MOST_ITEMS:
        raise invalid("queries and gallery", received=f"{len(items)} items", expected=f"at most {_MOST_ITEMS}")
    squares = np.einsum("ij,ij->i", items, items)
    distances = np.maximum(squares[:, np.newaxis] + squares - 2 * items @ items.T, 0)
    np.fill_diagonal(distances, -1)  # each item is its own first neighbour, before others that are equal to it
    ranking = np.argsort(distances, axis=1, kind="stable")
    np.fill_diagonal(distances, 0)
    encodings = _encodings(distances, ranking, k1)
    if k2 > 1:
        encodings = np.stack([encodings[nearest].mean(axis=0) for nearest in ranking[:, :k2]])
    jaccard = _jaccard_distances(encodings[: len(queries)], encodings[len(queries) :])
    original = distances[: len(queries), len(queries) :]
    return (1 - original_weight) * jaccard + original_weight * original


def _encodings(distances: np.ndarray, ranking: np.ndarray, k1: int) -> np.ndarray:
    """Return V `[items, items]`: weights of each item's expanded reciprocal neighbours.

    Each row is a distribution.
    """
    full = _reciprocal(ranking, k1)
    half = _reciprocal(ranking, max(1, round(k1 / 2)))
    # `shared[p, q]`: how many of R(q, k1/2) are in R(p, k1)
    shared = full.astype(np.float32) @ half.T.astype(np.float32)
    joins = full & (shared >= 2 / 3 * half.sum(axis=1) - 1e-6)
    expanded = full | ((joins.astype(np.float32) @ half.astype(np.float32)) > 0)
    weights = np.where(expanded, np.exp(-distances), 0)
    return weights / weights.sum(axis=1, keepdims=True)


def _reciprocal(ranking: np.ndarray, k: int) -> np.ndarray:
    """Return whether items are in each other's lists of neighbours, `[items, items]`."""
    is_near = np.zeros(ranking.shape, bool)
    np.put_along_axis(is_near, ranking[:, : k + 1], values=True, axis=1)
    return is_near & is_near.T


def _jaccard_distances(queries: np.ndarray, gallery: np.ndarray) -> np.ndarray:
    """Return distances `[queries, gallery]` of encodings `[queries, items]` and `[gallery, items]`.

    Each row of encodings has the sum 1.
    """
    found = np.ones((len(queries), len(gallery)))
    for row, query in enumerate(queries):
        used = np.flatnonzero(query)
        overlap = np.minimum(query[used], gallery[:, used]).sum(axis=1)
        found[row] = 1 - overlap / (2 - overlap)
    return found
