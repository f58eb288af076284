"""Metric losses, all of them called as `loss(embeddings, labels, references=None)`."""

from common.losses.angular import Angular
from common.losses.arc_face import ArcFace
from common.losses.circle import Circle
from common.losses.class_ids import class_ids
from common.losses.contrastive import Contrastive
from common.losses.cosine_contrastive import CosineContrastive
from common.losses.cross_batch_memory_loss import CrossBatchMemoryLoss
from common.losses.histogram import Histogram
from common.losses.lifted_structure import LiftedStructure
from common.losses.loss_layer import LossLayer
from common.losses.margin import Margin
from common.losses.metric_loss import MetricLoss
from common.losses.mined_loss import MinedLoss
from common.losses.multi_similarity import MultiSimilarity
from common.losses.n_pair import NPair
from common.losses.normalized_softmax import NormalizedSoftmax
from common.losses.proxy_anchor import ProxyAnchor
from common.losses.proxy_nca import ProxyNCA
from common.losses.quadruplet import Quadruplet
from common.losses.signal_to_noise import SignalToNoise
from common.losses.soft_triple import SoftTriple
from common.losses.triplet import Triplet
from common.losses.weighted_sum import WeightedSum

__all__ = [
    "Angular",
    "ArcFace",
    "Circle",
    "Contrastive",
    "CosineContrastive",
    "CrossBatchMemoryLoss",
    "Histogram",
    "LiftedStructure",
    "LossLayer",
    "Margin",
    "MetricLoss",
    "MinedLoss",
    "MultiSimilarity",
    "NPair",
    "NormalizedSoftmax",
    "ProxyAnchor",
    "ProxyNCA",
    "Quadruplet",
    "SignalToNoise",
    "SoftTriple",
    "Triplet",
    "WeightedSum",
    "class_ids",
]
