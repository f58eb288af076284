"""Retrieval metrics of a hierarchy of classes, by level and of all levels."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from common.errors import invalid
from common.retrieval.evaluator import RetrievalResult, evaluate_retrieval
from common.retrieval.labels import integer_labels
from common.retrieval.metrics import hierarchical_average_precision, ndcg
from common.retrieval.search.nearest_neighbors import NeighborSearch

_PAIRS_AT_ONCE = 2**20


class HierarchyResult(NamedTuple):
    """Metrics of a hierarchy.

    Attributes:
        by_level: of each level, the finest first.
        ndcg: mean nDCG of all queries that share a level with an item, in [0, 1].
        hierarchical_map: their mean hierarchical average precision, in [0, 1].
    """

    by_level: tuple[RetrievalResult, ...]
    ndcg: float
    hierarchical_map: float

    def as_dict(self) -> dict[str, float]:
        """Return counts and figures by their names in tables.

        Those of the finest level are first. Then come "L2 P@1", ... of level 2 and so on, "nDCG" and "H-AP".
        """
        figures = self.by_level[0].as_dict()
        for level, result in enumerate(self.by_level[1:], 2):
            figures |= {f"L{level} {name}": value for name, value in result.as_dict().items() if "num_" not in name}
        return {**figures, "nDCG": self.ndcg, "H-AP": self.hierarchical_map}


def evaluate_hierarchy(
    query_embeddings: np.ndarray,
    query_levels: np.ndarray,
    gallery_embeddings: np.ndarray | None = None,
    gallery_levels: np.ndarray | None = None,
    *,
    recall_at: Sequence[int] = (1, 2, 4, 8),
    similarity: str = "euclidean",
    average_precision: bool = False,
    tie_bounds: bool = False,
) -> HierarchyResult:
    """Evaluate each level as `evaluate_retrieval` does, and the whole hierarchy.

    The relevance of an item is the number of levels that it shares with the query. Rankings are exact, with equal
    similarities in the order of the gallery. The time grows with queries times gallery.

    Reference: definitions in `common.retrieval.metrics`.

    Args:
        query_embeddings: `[queries, dim]`.
        query_levels: integers `[queries, levels]`, the finest classes first. Each class is in one class of the next.
        gallery_embeddings, gallery_levels: likewise; None for self-retrieval.
        recall_at, similarity, average_precision, tie_bounds: see `evaluate_retrieval`.

    Raises:
        InvalidInput: as `evaluate_retrieval`; levels that differ in number, or a class in two of the next level.

    Examples:
        >>> levels = np.array([[0, 0], [0, 0], [1, 0], [1, 0], [2, 1], [2, 1]])
        >>> evaluate_hierarchy(np.float32([[0], [1], [3], [4], [9], [10]]), levels).ndcg
        1.0
    """
    sides = [np.asarray(query_levels)] + ([] if gallery_levels is None else [np.asarray(gallery_levels)])
    for side in sides:
        if side.ndim != 2 or side.shape[1:] != sides[0].shape[1:] or not side.shape[1]:
            raise invalid("levels", received=[list(s.shape) for s in sides], expected="[items, levels], as many each")
    _check_tree(np.concatenate(sides))
    num_levels = sides[0].shape[1]
    options = {"recall_at": recall_at, "similarity": similarity, "average_precision": average_precision}
    by_level = []
    for level in range(num_levels):
        labels = [integer_labels("levels", side[:, level], len(side)) for side in sides]
        gallery = () if gallery_embeddings is None else (gallery_embeddings, labels[-1])
        data = query_embeddings, labels[0], *gallery
        by_level.append(evaluate_retrieval(*data, **options, tie_bounds=tie_bounds))  # type: ignore[arg-type]
    queries = np.asarray(query_embeddings)
    search = NeighborSearch(
        queries, None if gallery_embeddings is None else np.asarray(gallery_embeddings), similarity=similarity
    )
    values = np.zeros((2, len(queries)))

    def keep(rows: np.ndarray, neighbors: np.ndarray) -> None:
        step = max(1, _PAIRS_AT_ONCE // neighbors.shape[1])
        for start in range(0, len(rows), step):
            part = rows[start : start + step]
            others = sides[-1][neighbors[start : start + step]]  # [part, items, levels]
            shared = (others == sides[0][part, np.newaxis]).sum(axis=2)
            values[:, part] = ndcg(shared), hierarchical_average_precision(shared)

    search.visit(np.full(len(queries), search.num_available), keep)
    means = values[:, by_level[-1].query_rows].mean(axis=1)
    return HierarchyResult(tuple(by_level), *map(float, means))


def _check_tree(levels: np.ndarray) -> None:
    """Refuse a class that is in two classes of the next level."""
    for level in range(levels.shape[1] - 1):
        pairs = np.unique(levels[:, level : level + 2], axis=0)
        repeated = pairs[1:, 0][pairs[1:, 0] == pairs[:-1, 0]]
        if len(repeated):
            above = pairs[pairs[:, 0] == repeated[0], 1]
            raise invalid(
                "levels",
                received=f"class {repeated[0]} of level {level + 1} in {above.tolist()} of level {level + 2}",
                expected="each class in one class of the next level",
            )
