"""Generalized sum pooling (GSP) and the zero-shot prediction loss that trains its prototypes."""

from typing import TYPE_CHECKING

from common import PROJECT as PROJECT  # fails if another `common` hides that of deep-metric-learning: rename it
from common import __version__ as __version__
from common.lazy_names import import_when_used

if TYPE_CHECKING:
    from gsp_dml.combined_head import CombinedSumHead
    from gsp_dml.generalized_sum_pooling import GeneralizedSumPooling
    from gsp_dml.partial_transport import Transport, partial_transport, weight_perplexity
    from gsp_dml.prototype_combination import (
        PrototypeCombination,
        PrototypeHistogram,
        histogram_operator,
        prototype_combination,
    )
    from gsp_dml.prototype_costs import prototype_costs
    from gsp_dml.zero_shot_loss import ZeroShotPredictionLoss, predict_other_half

__all__ = [
    "CombinedSumHead",
    "GeneralizedSumPooling",
    "PrototypeCombination",
    "PrototypeHistogram",
    "Transport",
    "ZeroShotPredictionLoss",
    "histogram_operator",
    "partial_transport",
    "predict_other_half",
    "prototype_combination",
    "prototype_costs",
    "weight_perplexity",
]
import_when_used(__name__)
