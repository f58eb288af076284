"""Miners select tuples of a batch: `(embeddings, labels, seed, references=None)` -> `Triplets` or `Pairs`."""

from typing import TYPE_CHECKING

from common.lazy_names import import_when_used

if TYPE_CHECKING:
    from common.miners.batch_hard import batch_hard as batch_hard
    from common.miners.distance_weighted import (
        distance_weighted as distance_weighted,
        log_inverse_density as log_inverse_density,
    )
    from common.miners.inter_class import inter_class as inter_class
    from common.miners.intra_class import intra_class as intra_class
    from common.miners.multi_similarity import multi_similarity_pairs as multi_similarity_pairs
    from common.miners.random_triplets import random_triplets as random_triplets
    from common.miners.rho_regularized import rho_regularized as rho_regularized
    from common.miners.semi_hard import semi_hard as semi_hard
    from common.miners.soft_hard import soft_hard as soft_hard
    from common.miners.triplets import Triplets as Triplets, pairs_of as pairs_of

import_when_used(__name__)
