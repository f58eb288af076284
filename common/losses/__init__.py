"""Metric losses, all of them called as `loss(embeddings, labels, references=None)`."""

from typing import TYPE_CHECKING

from common.lazy_names import import_when_used

if TYPE_CHECKING:
    from common.losses.angular import AngularLoss as AngularLoss
    from common.losses.arc_face import ArcFaceLoss as ArcFaceLoss, CosFaceLoss as CosFaceLoss
    from common.losses.circle import CircleLoss as CircleLoss
    from common.losses.class_ids import class_column as class_column, class_ids as class_ids
    from common.losses.component_loss import ComponentLoss as ComponentLoss
    from common.losses.composed_loss import loss_of_kind as loss_of_kind
    from common.losses.contrastive import ContrastiveLoss as ContrastiveLoss
    from common.losses.cosine_contrastive import CosineContrastiveLoss as CosineContrastiveLoss
    from common.losses.cross_batch_memory_loss import CrossBatchMemoryLoss as CrossBatchMemoryLoss
    from common.losses.hierarchical_proxies import HIERLoss as HIERLoss
    from common.losses.histogram import HistogramLoss as HistogramLoss
    from common.losses.hyperbolic import HyperbolicLoss as HyperbolicLoss
    from common.losses.lifted_structure import LiftedStructureLoss as LiftedStructureLoss
    from common.losses.loss_layer import LossLayer as LossLayer
    from common.losses.margin import MarginLoss as MarginLoss
    from common.losses.matryoshka import MatryoshkaLoss as MatryoshkaLoss
    from common.losses.metric_loss import MetricLoss as MetricLoss
    from common.losses.mined_loss import MinedLoss as MinedLoss
    from common.losses.multi_similarity import MultiSimilarityLoss as MultiSimilarityLoss
    from common.losses.n_pair import NPairLoss as NPairLoss
    from common.losses.normalized_softmax import NormalizedSoftmaxLoss as NormalizedSoftmaxLoss
    from common.losses.proxy_anchor import ProxyAnchorLoss as ProxyAnchorLoss
    from common.losses.proxy_nca import ProxyNCALoss as ProxyNCALoss
    from common.losses.quadruplet import QuadrupletLoss as QuadrupletLoss
    from common.losses.rank_losses import (
        FastAPLoss as FastAPLoss,
        PenalizedNegativesLoss as PenalizedNegativesLoss,
        RecallAtKLoss as RecallAtKLoss,
        RoadmapLoss as RoadmapLoss,
        SmoothAPLoss as SmoothAPLoss,
    )
    from common.losses.regularizers import (
        CodingRateLoss as CodingRateLoss,
        KoLeoLoss as KoLeoLoss,
        ThresholdConsistentMarginLoss as ThresholdConsistentMarginLoss,
        coding_rate as coding_rate,
        koleo as koleo,
        threshold_consistent_margin as threshold_consistent_margin,
    )
    from common.losses.self_distillation import (
        SelfDistillationLoss as SelfDistillationLoss,
        similarity_divergence as similarity_divergence,
    )
    from common.losses.signal_to_noise import SignalToNoiseLoss as SignalToNoiseLoss
    from common.losses.soft_triple import SoftTripleLoss as SoftTripleLoss
    from common.losses.supervised_contrastive import SupervisedContrastiveLoss as SupervisedContrastiveLoss
    from common.losses.triplet import TripletLoss as TripletLoss
    from common.losses.weighted_sum import WeightedSumLoss as WeightedSumLoss

import_when_used(__name__)
