"""Query expansion: search again by a weighted mean of query and neighbours."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from common.errors import check_non_negative
from photo_search.index.similarity import unit_rows


class QueryExpansion(NamedTuple):
    """Settings of alpha query expansion, by Radenovic et al. except for fewer neighbours.

    Attributes:
        num_neighbors: n, the number of neighbours that join the query; 50 in the paper, for galleries with many views
            of a place.
        alpha: exponent of the weights; 0 is average query expansion (Chum et al. 2007).
    """

    num_neighbors: int = 10
    alpha: float = 3.0


def expand_queries(queries: np.ndarray, neighbors: np.ndarray, alpha: float = 3.0) -> np.ndarray:
    """Expand queries by their neighbours, with weights that fall with dissimilarity.

        q' = (q + sum_i max(<q, x_i>, 0)^alpha x_i) / ||...||

    Reference: F. Radenovic, G. Tolias, O. Chum: Fine-tuning CNN Image Retrieval with No Human Annotation, TPAMI 2018,
    section 4.3.2. A neighbour with a negative cosine, which the paper's non-negative descriptors do not have, gets
    weight 0.

    Args:
        queries: embeddings `[queries, dim]` of unit norm.
        neighbors: embeddings `[queries, n, dim]` of unit norm.
        alpha: at least 0.

    Returns:
        Expanded queries `[queries, dim]` of unit norm, float32 (float64 if both are).

    Raises:
        InvalidInput: a negative alpha.
    """
    check_non_negative("alpha", alpha)
    cosines = np.einsum("qd,qnd->qn", queries, neighbors)
    weights = np.where(cosines > 0, np.maximum(cosines, 0) ** alpha, 0)
    return unit_rows(queries + np.einsum("qn,qnd->qd", weights, neighbors))
