"""Exact retrieval: nearest neighbours, metrics, evaluation; clusters, diagnostics, refined metric matrices."""

from common.diagnostics.class_geometry import (
    ClassDistances,
    alignment,
    class_covering_radii,
    class_distances,
    uniformity,
)
from common.diagnostics.clustering import ClusteringResult, evaluate_clustering
from common.diagnostics.diagnostics import Diagnostics, collapse_warning, diagnose, generalization_gap
from common.diagnostics.posterior_refinement import (
    bilinear_embeddings,
    matrix_properties,
    metric_matrix,
    principal_axes,
    random_axes,
    refine,
)
from common.diagnostics.spectral_decay import spectral_decay
from common.retrieval.evaluator import RetrievalResult, combine_embeddings, evaluate_retrieval
from common.retrieval.metrics import first_hit_rank, map_at_r, precision_at_1, r_precision, recall_at_k
from common.retrieval.search.nearest_neighbors import NeighborSearch, find_nearest_neighbors

__all__ = [
    "ClassDistances",
    "ClusteringResult",
    "Diagnostics",
    "NeighborSearch",
    "RetrievalResult",
    "alignment",
    "bilinear_embeddings",
    "class_covering_radii",
    "class_distances",
    "collapse_warning",
    "combine_embeddings",
    "diagnose",
    "evaluate_clustering",
    "evaluate_retrieval",
    "first_hit_rank",
    "map_at_r",
    "matrix_properties",
    "metric_matrix",
    "find_nearest_neighbors",
    "generalization_gap",
    "precision_at_1",
    "principal_axes",
    "r_precision",
    "random_axes",
    "recall_at_k",
    "refine",
    "spectral_decay",
    "uniformity",
]
