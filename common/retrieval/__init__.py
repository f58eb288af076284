"""Exact retrieval: nearest neighbours, metrics, evaluation. `common.diagnostics` describes embeddings."""

from typing import TYPE_CHECKING

from common.lazy_names import import_when_used

if TYPE_CHECKING:
    from common.retrieval.evaluator import combine_embeddings, evaluate_retrieval, score_queries
    from common.retrieval.metrics import first_hit_rank, map_at_r, precision_at_1, r_precision, recall_at_k
    from common.retrieval.query_scores import QueryScores, RetrievalResult, merge_scores
    from common.retrieval.search.nearest_neighbors import NeighborSearch, find_nearest_neighbors

__all__ = [
    "NeighborSearch",
    "QueryScores",
    "RetrievalResult",
    "combine_embeddings",
    "evaluate_retrieval",
    "find_nearest_neighbors",
    "first_hit_rank",
    "map_at_r",
    "merge_scores",
    "precision_at_1",
    "r_precision",
    "recall_at_k",
    "score_queries",
]
import_when_used(__name__)
