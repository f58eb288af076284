"""Exact retrieval: nearest neighbours, metrics, evaluation. `common.diagnostics` describes embeddings."""

from typing import TYPE_CHECKING

from common.lazy_names import import_when_used

if TYPE_CHECKING:
    from common.retrieval.class_metrics import (
        ClassTable as ClassTable,
        class_table as class_table,
        nearest_centroid_accuracy as nearest_centroid_accuracy,
    )
    from common.retrieval.evaluator import (
        RetrievalResult as RetrievalResult,
        combine_embeddings as combine_embeddings,
        evaluate_retrieval as evaluate_retrieval,
    )
    from common.retrieval.hierarchy import HierarchyResult as HierarchyResult, evaluate_hierarchy as evaluate_hierarchy
    from common.retrieval.hyperbolic import lorentz_factors as lorentz_factors
    from common.retrieval.junk_lists import JunkListResult as JunkListResult, evaluate_with_junk as evaluate_with_junk
    from common.retrieval.metrics import (
        first_hit_rank as first_hit_rank,
        hierarchical_average_precision as hierarchical_average_precision,
        map_at_r as map_at_r,
        ndcg as ndcg,
        precision_at_1 as precision_at_1,
        r_precision as r_precision,
        recall_at_k as recall_at_k,
    )
    from common.retrieval.open_set import OpenSetResult as OpenSetResult, open_set_rejection as open_set_rejection
    from common.retrieval.search.nearest_neighbors import (
        NeighborSearch as NeighborSearch,
        find_nearest_neighbors as find_nearest_neighbors,
    )
    from common.retrieval.sequences import SequenceMatch as SequenceMatch, match_sequences as match_sequences
    from common.retrieval.verification import (
        Verification as Verification,
        operating_point_inconsistency as operating_point_inconsistency,
        verify_pairs as verify_pairs,
    )

import_when_used(__name__)
