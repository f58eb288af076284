"""Systems of Milbich's dissertation: shared features, MIC, DiVA, PADS and compact groups."""

from typing import TYPE_CHECKING

from common import (  # fails if another `common` hides that of deep-metric-learning: rename it
    PROJECT as PROJECT,
    __version__ as __version__,
)
from common.lazy_names import import_when_used

if TYPE_CHECKING:
    from milbich_dml.binned import binned as binned, bins_of as bins_of
    from milbich_dml.compact_groups import CompactGroups as CompactGroups, compact_groups as compact_groups
    from milbich_dml.decorrelation import DecorrelationLoss as DecorrelationLoss
    from milbich_dml.distance_adapted_contrast import DistanceAdaptedContrastLoss as DistanceAdaptedContrastLoss
    from milbich_dml.feature_tasks import feature_sizes as feature_sizes, feature_tasks_loss as feature_tasks_loss
    from milbich_dml.group_labels import GroupLabelsLoss as GroupLabelsLoss
    from milbich_dml.held_back_figures import held_back_figures as held_back_figures
    from milbich_dml.in_turn import InTurnLoss as InTurnLoss
    from milbich_dml.label_column import LabelColumnLoss as LabelColumnLoss
    from milbich_dml.permuted_labels import PermutedLabelsLoss as PermutedLabelsLoss
    from milbich_dml.policy_adapted_sampling import (
        Decision as Decision,
        PolicyAdaptedSampling as PolicyAdaptedSampling,
        PolicyRules as PolicyRules,
    )
    from milbich_dml.regrouping import (
        Regrouping as Regrouping,
        classes_per_group as classes_per_group,
        without_classes as without_classes,
    )
    from milbich_dml.sampling_distribution import SamplingDistribution as SamplingDistribution
    from milbich_dml.sampling_policy import SamplingPolicy as SamplingPolicy
    from milbich_dml.sampling_record import SamplingRecord as SamplingRecord
    from milbich_dml.views import ViewLoss as ViewLoss

import_when_used(__name__)
