"""Counterparts of our losses in pytorch-metric-learning; imports torch."""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from pytorch_metric_learning import distances, losses, miners, reducers


def unit_distance(power: int = 1) -> distances.LpDistance:
    """Return Euclidean distances of unit vectors, to a power."""
    return distances.LpDistance(normalize_embeddings=True, p=2, power=power)


def cosine_contrastive(margin: float) -> torch.nn.Module:
    """Return C1 without its division by the number of anchors.

    The caller divides.
    """
    return losses.ContrastiveLoss(
        pos_margin=1.0 - 1e-5, neg_margin=margin, distance=distances.CosineSimilarity(), reducer=reducers.SumReducer()
    )


class OfUnitVectors(torch.nn.Module):
    """A loss of pytorch-metric-learning that expects normalised vectors."""

    def __init__(self, loss):
        super().__init__()
        self.loss = loss

    def forward(self, embeddings, labels, *others):
        return self.loss(torch.nn.functional.normalize(embeddings), labels, *others)


LOSSES: dict[str, Callable] = {
    "c1": lambda: cosine_contrastive(0.5),
    "c2": lambda: losses.ContrastiveLoss(pos_margin=0.2858, neg_margin=0.513, distance=unit_distance()),
    "triplet": lambda: losses.TripletMarginLoss(margin=0.0961, distance=unit_distance()),
    "ms": lambda: losses.MultiSimilarityLoss(alpha=2.0, beta=40.0, base=0.5),
    "margin": lambda: losses.MarginLoss(margin=0.2, beta=1.2, learn_beta=True),
    "npair": lambda: losses.NTXentLoss(temperature=1 / 16),  # the same for unit vectors and a scale of 16
    "lifted": lambda: losses.LiftedStructureLoss(neg_margin=1.0),
    "lifted_generalized": lambda: losses.GeneralizedLiftedStructureLoss(neg_margin=1.0),
    "angular": lambda: OfUnitVectors(losses.AngularLoss(alpha=45)),
    "histogram": lambda: losses.HistogramLoss(n_bins=64),
    "snr": lambda: losses.SignalToNoiseRatioContrastiveLoss(pos_margin=0.0, neg_margin=1.0),
    "snr_triplet": lambda: losses.TripletMarginLoss(
        margin=0.2, distance=distances.SNRDistance(normalize_embeddings=True)
    ),
    "circle": lambda: losses.CircleLoss(m=0.4, gamma=80),
    "normsoftmax": lambda classes, dim: losses.NormalizedSoftmaxLoss(classes, dim, temperature=0.05),
    "arcface": lambda classes, dim: losses.ArcFaceLoss(classes, dim, margin=math.degrees(0.5), scale=16),
    "triplet_squared": lambda: losses.TripletMarginLoss(margin=0.2, distance=unit_distance(2)),
    "fastap": lambda: losses.FastAPLoss(num_bins=10),
    "supcon": lambda: losses.SupConLoss(temperature=0.1),
    "smoothap": lambda: losses.SmoothAPLoss(temperature=0.01),
    "pnp": lambda: losses.PNPLoss(alpha=1, anneal=0.01, variant="Dq"),
    "tcm": lambda: losses.ThresholdConsistentMarginLoss(margin_plus=0.9, margin_minus=0.5),
    "arcface_centers": lambda classes, dim, centers: losses.SubCenterArcFaceLoss(
        num_classes=classes, embedding_size=dim, margin=math.degrees(0.5), scale=16, sub_centers=centers
    ),
    "cosface": lambda classes, dim: losses.CosFaceLoss(classes, dim, margin=0.35, scale=64),
    "pnca": lambda classes, dim: losses.ProxyNCALoss(classes, dim, softmax_scale=1 / 0.22, distance=unit_distance(2)),
    "panchor": lambda classes, dim: losses.ProxyAnchorLoss(classes, dim, margin=0.1, alpha=32.0),
    "softtriple": lambda classes, dim, centers: losses.SoftTripleLoss(classes, dim, centers_per_class=centers),
}


class PeerStep:
    """Forward and backward pass of a peer's loss.

    The call returns the value.

    Args:
        loss: the module.
        embeddings: `[batch, dim]`.
        labels: integers, `[batch]`.
        references: None, or embeddings `[references, dim]` and labels `[references]`.
        train_references: whether the references have a gradient too, as proxies have.
        anchors: `"embeddings"` or `"references"`.
        divisor: of the value.
        miner: finds triplets first, or None.
    """

    def __init__(
        self, loss, embeddings, labels, references=None, *, train_references=False, anchors="embeddings", divisor=1.0,
        miner=None,
    ):  # fmt: skip
        self.loss, self.miner, self.divisor, self.anchors = loss, miner, divisor, anchors
        self.embeddings = torch.from_numpy(embeddings).requires_grad_(True)
        self.labels = torch.from_numpy(labels)
        self.references = None
        if references is not None:
            self.references = torch.from_numpy(references[0]).requires_grad_(train_references)
            self.reference_labels = torch.from_numpy(references[1])

    def __call__(self) -> float:
        """Make one pass; drop the gradients."""
        value = self._value() / self.divisor
        value.backward()
        for leaf in (self.embeddings, self.references, *self.loss.parameters()):
            if leaf is not None:
                leaf.grad = None
        return float(value.detach())

    def _value(self):
        if self.references is None:
            mined = None if self.miner is None else self.miner(self.embeddings, self.labels)
            return self.loss(self.embeddings, self.labels, mined)
        sides = [(self.embeddings, self.labels), (self.references, self.reference_labels)]
        if self.anchors == "references":
            sides.reverse()
        return self.loss(*sides[0], None, *sides[1])


# All triplets with `d_ap < d_an <= d_ap + margin`; a negative for each positive pair, by the density of distances.
MINERS: dict[str, Callable] = {
    "semi_hard": lambda: miners.TripletMarginMiner(
        margin=0.0961, type_of_triplets="semihard", distance=unit_distance()
    ),
    "distance": lambda: miners.DistanceWeightedMiner(cutoff=0.5, nonzero_loss_cutoff=2.0),
}


def cross_batch_memory(loss, embeddings, labels):
    """Return a memory that is full of `embeddings` `[memory, dim]`."""
    memory = losses.CrossBatchMemory(loss, embeddings.shape[1], memory_size=len(embeddings))
    memory.embedding_memory[:] = torch.from_numpy(embeddings)
    memory.label_memory[:] = torch.from_numpy(labels)
    memory.has_been_filled = True
    return memory


def set_weights(loss, proxies) -> None:
    """Replace the module's own proxies by `proxies` `[proxies, dim]`."""
    name = next(name for name in ("fc", "W", "proxies") if hasattr(loss, name))
    weights = torch.from_numpy(proxies)
    getattr(loss, name).data = weights if name == "proxies" else weights.t().contiguous()
