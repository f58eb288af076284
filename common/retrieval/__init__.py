"""Exact retrieval: nearest neighbours, metrics, evaluation. `common.diagnostics` describes embeddings."""

from typing import TYPE_CHECKING

from common.lazy_names import import_when_used

if TYPE_CHECKING:
    from common.retrieval.class_metrics import ClassTable, class_table, nearest_centroid_accuracy
    from common.retrieval.evaluator import RetrievalResult, combine_embeddings, evaluate_retrieval
    from common.retrieval.hierarchy import HierarchyResult, evaluate_hierarchy
    from common.retrieval.hyperbolic import lorentz_factors
    from common.retrieval.junk_lists import JunkListResult, evaluate_with_junk
    from common.retrieval.metrics import (
        first_hit_rank,
        hierarchical_average_precision,
        map_at_r,
        ndcg,
        precision_at_1,
        r_precision,
        recall_at_k,
    )
    from common.retrieval.open_set import OpenSetResult, open_set_rejection
    from common.retrieval.search.nearest_neighbors import NeighborSearch, find_nearest_neighbors
    from common.retrieval.sequences import SequenceMatch, match_sequences
    from common.retrieval.verification import Verification, operating_point_inconsistency, verify_pairs

__all__ = [
    "ClassTable",
    "HierarchyResult",
    "JunkListResult",
    "NeighborSearch",
    "OpenSetResult",
    "RetrievalResult",
    "SequenceMatch",
    "Verification",
    "class_table",
    "combine_embeddings",
    "evaluate_hierarchy",
    "evaluate_retrieval",
    "evaluate_with_junk",
    "find_nearest_neighbors",
    "first_hit_rank",
    "hierarchical_average_precision",
    "lorentz_factors",
    "map_at_r",
    "match_sequences",
    "ndcg",
    "nearest_centroid_accuracy",
    "open_set_rejection",
    "operating_point_inconsistency",
    "precision_at_1",
    "r_precision",
    "recall_at_k",
    "verify_pairs",
]
import_when_used(__name__)
