"""An index of embeddings: exact and approximate search, duplicates, re-ranking, thresholds."""

from typing import TYPE_CHECKING

from common.lazy_names import import_when_used

if TYPE_CHECKING:
    from common.index.approximate import ApproximateSearch
    from common.index.embedding_index import EmbeddingIndex, ImageEmbedder
    from common.index.label_suspects import LabelSuspects, find_label_suspects
    from common.index.near_duplicates import DuplicatePairs, find_near_duplicates
    from common.index.neighbors import Neighbors
    from common.index.query_expansion import QueryExpansion, expand_queries
    from common.index.reranking import Reranking, k_reciprocal_distances
    from common.index.thresholds import (
        CalibratedRejection,
        CalibratedThreshold,
        calibrate_rejection,
        calibrate_threshold,
        precision_interval,
    )

__all__ = [
    "ApproximateSearch",
    "CalibratedRejection",
    "CalibratedThreshold",
    "DuplicatePairs",
    "ImageEmbedder",
    "EmbeddingIndex",
    "LabelSuspects",
    "Neighbors",
    "QueryExpansion",
    "Reranking",
    "calibrate_rejection",
    "calibrate_threshold",
    "expand_queries",
    "find_label_suspects",
    "find_near_duplicates",
    "k_reciprocal_distances",
    "precision_interval",
]
import_when_used(__name__)
