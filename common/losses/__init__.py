"""Metric losses, all of them called as `loss(embeddings, labels, references=None)`."""

from typing import TYPE_CHECKING

from common.lazy_names import import_when_used

if TYPE_CHECKING:
    from common.losses.angular import AngularLoss
    from common.losses.arc_face import ArcFaceLoss, CosFaceLoss
    from common.losses.circle import CircleLoss
    from common.losses.class_ids import class_column, class_ids
    from common.losses.component_loss import ComponentLoss
    from common.losses.composed_loss import loss_of_kind
    from common.losses.contrastive import ContrastiveLoss
    from common.losses.cosine_contrastive import CosineContrastiveLoss
    from common.losses.cross_batch_memory_loss import CrossBatchMemoryLoss
    from common.losses.hierarchical_proxies import HIERLoss
    from common.losses.histogram import HistogramLoss
    from common.losses.hyperbolic import HyperbolicLoss
    from common.losses.lifted_structure import LiftedStructureLoss
    from common.losses.loss_layer import LossLayer
    from common.losses.margin import MarginLoss
    from common.losses.matryoshka import MatryoshkaLoss
    from common.losses.metric_loss import MetricLoss
    from common.losses.mined_loss import MinedLoss
    from common.losses.multi_similarity import MultiSimilarityLoss
    from common.losses.n_pair import NPairLoss
    from common.losses.normalized_softmax import NormalizedSoftmaxLoss
    from common.losses.proxy_anchor import ProxyAnchorLoss
    from common.losses.proxy_nca import ProxyNCALoss
    from common.losses.quadruplet import QuadrupletLoss
    from common.losses.rank_losses import (
        FastAPLoss,
        PenalizedNegativesLoss,
        RecallAtKLoss,
        RoadmapLoss,
        SmoothAPLoss,
    )
    from common.losses.regularizers import (
        CodingRateLoss,
        KoLeoLoss,
        ThresholdConsistentMarginLoss,
        coding_rate,
        koleo,
        threshold_consistent_margin,
    )
    from common.losses.self_distillation import SelfDistillationLoss, similarity_divergence
    from common.losses.signal_to_noise import SignalToNoiseLoss
    from common.losses.soft_triple import SoftTripleLoss
    from common.losses.supervised_contrastive import SupervisedContrastiveLoss
    from common.losses.triplet import TripletLoss
    from common.losses.weighted_sum import WeightedSumLoss

__all__ = [
    "AngularLoss",
    "ArcFaceLoss",
    "CircleLoss",
    "CodingRateLoss",
    "ComponentLoss",
    "ContrastiveLoss",
    "CosFaceLoss",
    "CosineContrastiveLoss",
    "CrossBatchMemoryLoss",
    "FastAPLoss",
    "HIERLoss",
    "HistogramLoss",
    "HyperbolicLoss",
    "KoLeoLoss",
    "LiftedStructureLoss",
    "LossLayer",
    "MarginLoss",
    "MatryoshkaLoss",
    "MetricLoss",
    "MinedLoss",
    "MultiSimilarityLoss",
    "NPairLoss",
    "NormalizedSoftmaxLoss",
    "PenalizedNegativesLoss",
    "ProxyAnchorLoss",
    "ProxyNCALoss",
    "QuadrupletLoss",
    "RecallAtKLoss",
    "RoadmapLoss",
    "SelfDistillationLoss",
    "SignalToNoiseLoss",
    "SmoothAPLoss",
    "SoftTripleLoss",
    "SupervisedContrastiveLoss",
    "ThresholdConsistentMarginLoss",
    "TripletLoss",
    "WeightedSumLoss",
    "class_column",
    "class_ids",
    "coding_rate",
    "koleo",
    "loss_of_kind",
    "similarity_divergence",
    "threshold_consistent_margin",
]
import_when_used(__name__)
