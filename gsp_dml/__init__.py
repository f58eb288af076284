"""Generalized sum pooling (GSP) and the zero-shot prediction loss that trains its prototypes."""

from typing import TYPE_CHECKING

from common import (  # fails if another `common` hides that of deep-metric-learning: rename it
    PROJECT as PROJECT,
    __version__ as __version__,
)
from common.lazy_names import import_when_used

if TYPE_CHECKING:
    from gsp_dml.combined_head import CombinedSumHead as CombinedSumHead
    from gsp_dml.generalized_sum_pooling import GeneralizedSumPooling as GeneralizedSumPooling
    from gsp_dml.partial_transport import (
        Transport as Transport,
        partial_transport as partial_transport,
        weight_perplexity as weight_perplexity,
    )
    from gsp_dml.prototype_combination import (
        PrototypeCombination as PrototypeCombination,
        PrototypeHistogram as PrototypeHistogram,
        histogram_operator as histogram_operator,
        prototype_combination as prototype_combination,
    )
    from gsp_dml.prototype_costs import prototype_costs as prototype_costs
    from gsp_dml.zero_shot_loss import (
        ZeroShotPredictionLoss as ZeroShotPredictionLoss,
        predict_other_half as predict_other_half,
    )

import_when_used(__name__)
