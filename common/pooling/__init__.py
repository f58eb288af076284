"""Poolings: from local features to one vector. Generalized sum pooling lives in `gsp_dml`."""

from typing import TYPE_CHECKING

from common.lazy_names import import_when_used

if TYPE_CHECKING:
    from common.pooling.cbam import CBAMPooling
    from common.pooling.class_token import ClassTokenPooling
    from common.pooling.cross_dimensional import CrossDimensionalPooling
    from common.pooling.delf import DeLFPooling
    from common.pooling.feature_pooling import FeaturePooling
    from common.pooling.generalized_max import GeneralizedMaxPooling
    from common.pooling.generalized_mean import GeneralizedMeanPooling
    from common.pooling.global_pooling import GlobalAverageMaxPooling, GlobalAveragePooling, GlobalMaxPooling
    from common.pooling.net_vlad import NetVLADPooling
    from common.pooling.norm_attention import NormAttentionPooling
    from common.pooling.optimal_transport import OptimalTransportPooling
    from common.pooling.second_order import SecondOrderPooling
    from common.pooling.second_order_attention import SecondOrderAttentionPooling
    from common.pooling.weighted_pooling import WeightedPooling
    from common.pooling.weldon import WeldonPooling

__all__ = [
    "CBAMPooling",
    "ClassTokenPooling",
    "CrossDimensionalPooling",
    "DeLFPooling",
    "FeaturePooling",
    "GeneralizedMaxPooling",
    "GeneralizedMeanPooling",
    "GlobalAverageMaxPooling",
    "GlobalAveragePooling",
    "GlobalMaxPooling",
    "NetVLADPooling",
    "NormAttentionPooling",
    "OptimalTransportPooling",
    "SecondOrderAttentionPooling",
    "SecondOrderPooling",
    "WeightedPooling",
    "WeldonPooling",
]
import_when_used(__name__)
