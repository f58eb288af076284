"""Exact retrieval: nearest neighbours, metrics, evaluation; agreement of clusters with classes."""

from common.retrieval.clustering import ClusteringResult, evaluate_clustering
from common.retrieval.evaluator import RetrievalResult, combine_embeddings, evaluate_retrieval
from common.retrieval.metrics import first_hit_rank, map_at_r, precision_at_1, r_precision, recall_at_k
from common.retrieval.nearest_neighbors import NeighborSearch, find_nearest_neighbors

__all__ = [
    "ClusteringResult",
    "NeighborSearch",
    "RetrievalResult",
    "combine_embeddings",
    "evaluate_clustering",
    "evaluate_retrieval",
    "first_hit_rank",
    "map_at_r",
    "find_nearest_neighbors",
    "precision_at_1",
    "r_precision",
    "recall_at_k",
]
