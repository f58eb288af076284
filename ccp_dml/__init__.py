"""Chance-constrained proxies (CCP): deep metric learning by alternating projections, for any metric loss."""

from typing import TYPE_CHECKING

from common import (  # fails if another `common` hides that of deep-metric-learning: rename it
    PROJECT as PROJECT,
    __version__ as __version__,
)
from common.lazy_names import import_when_used

if TYPE_CHECKING:
    from ccp_dml.alternating_projections import AlternatingProjections as AlternatingProjections
    from ccp_dml.chance_constrained_loss import ChanceConstrainedLoss as ChanceConstrainedLoss
    from ccp_dml.chance_constrained_model import ChanceConstrainedModel as ChanceConstrainedModel
    from ccp_dml.class_pools import ClassPools as ClassPools, sample_pools as sample_pools
    from ccp_dml.class_representatives import (
        Representatives as Representatives,
        choose_representatives as choose_representatives,
        covering_radii as covering_radii,
    )
    from ccp_dml.projection_problem import ProjectionProblem as ProjectionProblem
    from ccp_dml.projection_rules import ProjectionRules as ProjectionRules
    from ccp_dml.proximal_term import ProximalTerm as ProximalTerm
    from ccp_dml.sample_based_loss import SampleBasedLoss as SampleBasedLoss

import_when_used(__name__)
