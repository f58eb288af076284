"""All public layers, losses, miners, poolings, metrics and networks under one name.

    import deep_metric_learning as dml

    loss = dml.ProxyAnchorLoss(num_classes=100, embedding_dim=128)

A name is imported on its first use. The import also lets `keras.models.load_model` find the classes of this project.
"""

from typing import TYPE_CHECKING

from common import PROJECT as PROJECT  # fails if another `common` hides that of deep-metric-learning: rename it
from common import __version__ as __version__
from common.lazy_names import import_when_used

if TYPE_CHECKING:
    from ccp_dml import *
    from common.backbones import *
    from common.deployment import *
    from common.diagnostics import *
    from common.losses import *
    from common.miners import *
    from common.pooling import *
    from common.references import *
    from common.retrieval import *
    from common.training import *
    from gsp_dml import *
    from milbich_dml import *

import_when_used(__name__)
