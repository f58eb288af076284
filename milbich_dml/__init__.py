"""Systems of Milbich's dissertation: shared features, MIC, DiVA, PADS and compact groups."""

from typing import TYPE_CHECKING

from common import PROJECT as PROJECT  # fails if another `common` hides that of deep-metric-learning: rename it
from common import __version__ as __version__
from common.lazy_names import import_when_used

if TYPE_CHECKING:
    from milbich_dml.binned import binned, bins_of
    from milbich_dml.compact_groups import CompactGroups, compact_groups
    from milbich_dml.decorrelation import DecorrelationLoss
    from milbich_dml.distance_adapted_contrast import DistanceAdaptedContrastLoss
    from milbich_dml.feature_tasks import feature_sizes, feature_tasks_loss
    from milbich_dml.group_labels import GroupLabelsLoss
    from milbich_dml.held_back_figures import held_back_figures
    from milbich_dml.in_turn import InTurnLoss
    from milbich_dml.label_column import LabelColumnLoss
    from milbich_dml.permuted_labels import PermutedLabelsLoss
    from milbich_dml.policy_adapted_sampling import Decision, PolicyAdaptedSampling, PolicyRules
    from milbich_dml.regrouping import Regrouping, classes_per_group, without_classes
    from milbich_dml.sampling_distribution import SamplingDistribution
    from milbich_dml.sampling_policy import SamplingPolicy
    from milbich_dml.sampling_record import SamplingRecord
    from milbich_dml.views import ViewLoss

__all__ = [
    "CompactGroups",
    "Decision",
    "DecorrelationLoss",
    "DistanceAdaptedContrastLoss",
    "GroupLabelsLoss",
    "InTurnLoss",
    "LabelColumnLoss",
    "PermutedLabelsLoss",
    "PolicyAdaptedSampling",
    "PolicyRules",
    "Regrouping",
    "SamplingDistribution",
    "SamplingPolicy",
    "SamplingRecord",
    "ViewLoss",
    "binned",
    "bins_of",
    "classes_per_group",
    "compact_groups",
    "feature_sizes",
    "feature_tasks_loss",
    "held_back_figures",
    "without_classes",
]
import_when_used(__name__)
