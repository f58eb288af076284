"""Chance-constrained proxies (CCP): deep metric learning by alternating projections, for any metric loss."""

from typing import TYPE_CHECKING

from common import PROJECT as PROJECT  # fails if another `common` hides that of deep-metric-learning: rename it
from common import __version__ as __version__
from common.lazy_names import import_when_used

if TYPE_CHECKING:
    from ccp_dml.alternating_projections import AlternatingProjections
    from ccp_dml.chance_constrained_loss import ChanceConstrainedLoss
    from ccp_dml.chance_constrained_model import ChanceConstrainedModel
    from ccp_dml.class_pools import ClassPools, sample_pools
    from ccp_dml.class_representatives import Representatives, choose_representatives, covering_radii
    from ccp_dml.projection_problem import ProjectionProblem
    from ccp_dml.projection_rules import ProjectionRules
    from ccp_dml.proximal_term import ProximalTerm
    from ccp_dml.sample_based_loss import SampleBasedLoss

__all__ = [
    "AlternatingProjections",
    "ChanceConstrainedLoss",
    "ChanceConstrainedModel",
    "ClassPools",
    "ProjectionProblem",
    "ProjectionRules",
    "ProximalTerm",
    "Representatives",
    "SampleBasedLoss",
    "choose_representatives",
    "covering_radii",
    "sample_pools",
]
import_when_used(__name__)
