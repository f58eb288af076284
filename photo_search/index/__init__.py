"""An index of embeddings: exact and approximate search, duplicates, re-ranking, thresholds."""

from typing import TYPE_CHECKING

from common.lazy_names import import_when_used

if TYPE_CHECKING:
    from photo_search.index.approximate import ApproximateSearch
    from photo_search.index.embedding_index import EmbeddingIndex, ImageEmbedder
    from photo_search.index.label_suspects import LabelSuspects, find_label_suspects
    from photo_search.index.near_duplicates import DuplicatePairs, find_near_duplicates
    from photo_search.index.query_expansion import QueryExpansion, expand_queries
    from photo_search.index.reranking import Reranking, k_reciprocal_distances
    from photo_search.index.search import Neighbors
    from photo_search.index.thresholds import (
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
