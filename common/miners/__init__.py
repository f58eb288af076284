"""Miners select tuples of a batch: `(embeddings, labels, seed, references=None)` -> `Triplets` or `Pairs`."""

from typing import TYPE_CHECKING

from common.lazy_names import import_when_used

if TYPE_CHECKING:
    from common.miners.batch_hard import batch_hard
    from common.miners.distance_weighted import distance_weighted, log_inverse_density
    from common.miners.inter_class import inter_class
    from common.miners.intra_class import intra_class
    from common.miners.multi_similarity import multi_similarity_pairs
    from common.miners.random_triplets import random_triplets
    from common.miners.rho_regularized import rho_regularized
    from common.miners.semi_hard import semi_hard
    from common.miners.soft_hard import soft_hard
    from common.miners.triplets import Triplets, pairs_of

__all__ = [
    "Triplets",
    "batch_hard",
    "distance_weighted",
    "inter_class",
    "intra_class",
    "log_inverse_density",
    "multi_similarity_pairs",
    "pairs_of",
    "random_triplets",
    "semi_hard",
    "soft_hard",
    "rho_regularized",
]
import_when_used(__name__)
