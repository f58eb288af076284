"""An index of embeddings: exact and approximate search, duplicates, re-ranking, thresholds."""

from typing import TYPE_CHECKING

from common.lazy_names import import_when_used

if TYPE_CHECKING:
    from photo_search.index.approximate import ApproximateSearch as ApproximateSearch
    from photo_search.index.embedding_index import EmbeddingIndex as EmbeddingIndex, ImageEmbedder as ImageEmbedder
    from photo_search.index.label_suspects import (
        LabelSuspects as LabelSuspects,
        find_label_suspects as find_label_suspects,
    )
    from photo_search.index.near_duplicates import (
        DuplicatePairs as DuplicatePairs,
        find_near_duplicates as find_near_duplicates,
    )
    from photo_search.index.query_expansion import QueryExpansion as QueryExpansion, expand_queries as expand_queries
    from photo_search.index.reranking import Reranking as Reranking, k_reciprocal_distances as k_reciprocal_distances
    from photo_search.index.search import Neighbors as Neighbors
    from photo_search.index.thresholds import (
        CalibratedRejection as CalibratedRejection,
        CalibratedThreshold as CalibratedThreshold,
        calibrate_rejection as calibrate_rejection,
        calibrate_threshold as calibrate_threshold,
        precision_interval as precision_interval,
    )

import_when_used(__name__)
