"""Poolings: from local features to one vector. Generalized sum pooling lives in `gsp_dml`."""

from typing import TYPE_CHECKING

from common.lazy_names import import_when_used

if TYPE_CHECKING:
    from common.pooling.cbam import CBAMPooling as CBAMPooling
    from common.pooling.class_token import ClassTokenPooling as ClassTokenPooling
    from common.pooling.cross_dimensional import CrossDimensionalPooling as CrossDimensionalPooling
    from common.pooling.delf import DeLFPooling as DeLFPooling
    from common.pooling.feature_pooling import FeaturePooling as FeaturePooling
    from common.pooling.generalized_max import GeneralizedMaxPooling as GeneralizedMaxPooling
    from common.pooling.generalized_mean import GeneralizedMeanPooling as GeneralizedMeanPooling
    from common.pooling.global_pooling import (
        GlobalAverageMaxPooling as GlobalAverageMaxPooling,
        GlobalAveragePooling as GlobalAveragePooling,
        GlobalMaxPooling as GlobalMaxPooling,
    )
    from common.pooling.net_vlad import NetVLADPooling as NetVLADPooling
    from common.pooling.norm_attention import NormAttentionPooling as NormAttentionPooling
    from common.pooling.optimal_transport import OptimalTransportPooling as OptimalTransportPooling
    from common.pooling.second_order import SecondOrderPooling as SecondOrderPooling
    from common.pooling.second_order_attention import SecondOrderAttentionPooling as SecondOrderAttentionPooling
    from common.pooling.weighted_pooling import WeightedPooling as WeightedPooling
    from common.pooling.weldon import WeldonPooling as WeldonPooling

import_when_used(__name__)
