"""Metric losses, all of them called as `loss(embeddings, labels, references=None)`."""

from common.losses.contrastive import Contrastive
from common.losses.cosine_contrastive import CosineContrastive
from common.losses.cross_batch_memory_loss import CrossBatchMemoryLoss
from common.losses.metric_loss import MetricLoss
from common.losses.multi_similarity import MultiSimilarity
from common.losses.proxy_anchor import ProxyAnchor
from common.losses.proxy_nca import ProxyNCA
from common.losses.soft_triple import SoftTriple
from common.losses.triplet import Triplet
from common.losses.weighted_sum import WeightedSum

__all__ = [
    "Contrastive",
    "CosineContrastive",
    "CrossBatchMemoryLoss",
    "MetricLoss",
    "MultiSimilarity",
    "ProxyAnchor",
    "ProxyNCA",
    "SoftTriple",
    "Triplet",
    "WeightedSum",
]
