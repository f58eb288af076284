"""One table of all losses, for what holds for each of them. A loss whose defaults will do needs no line in it."""

import inspect

import numpy as np

import milbich_dml
from common import losses
from milbich_dml import SamplingDistribution

BATCH, DIM, NUM_CLASSES = 12, 5, 4

# Name -> constructor from the keywords of every `MetricLoss`. Composers hand the keywords on to the losses inside.
ROWS = {
    "ContrastiveLoss": lambda **kw: losses.ContrastiveLoss(0.2, 0.9, **kw),
    "CosineContrastiveLoss": lambda **kw: losses.CosineContrastiveLoss(0.3, **kw),
    "CosineContrastiveLoss of active": lambda **kw: losses.CosineContrastiveLoss(0.3, "mean_of_active", **kw),
    "TripletLoss": lambda **kw: losses.TripletLoss(0.2, **kw),
    "TripletLoss over references": lambda **kw: losses.TripletLoss(0.2, "references", **kw),
    "TripletLoss semi-hard": lambda **kw: losses.TripletLoss(0.4, mining="semi_hard", **kw),
    "TripletLoss nearest semi-hard": lambda **kw: losses.TripletLoss(0.4, mining="nearest_semi_hard", **kw),
    "TripletLoss squared": lambda **kw: losses.TripletLoss(0.4, squared=True, **kw),
    "MultiSimilarityLoss": lambda **kw: losses.MultiSimilarityLoss(2.0, 20.0, 0.4, **kw),
    "MultiSimilarityLoss of active": lambda **kw: losses.MultiSimilarityLoss(
        2.0, 20.0, 0.4, reduction="mean_of_active", **kw
    ),
    "MultiSimilarityLoss over references": lambda **kw: losses.MultiSimilarityLoss(anchors="references", **kw),
    "ProxyNCALoss": lambda **kw: losses.ProxyNCALoss(NUM_CLASSES, DIM, proxies_per_class=2, **kw),
    "ProxyNCALoss of negatives": lambda **kw: losses.ProxyNCALoss(
        NUM_CLASSES, DIM, proxies_per_class=2, temperature=0.5, denominator="negatives", **kw
    ),
    "SoftTripleLoss": lambda **kw: losses.SoftTripleLoss(NUM_CLASSES, DIM, centers_per_class=3, **kw),
    "CrossBatchMemoryLoss": lambda dtype=None, **kw: losses.CrossBatchMemoryLoss(
        losses.ContrastiveLoss(0.2, 0.9, dtype=dtype, **kw), 2 * BATCH, DIM, start_step=0, dtype=dtype
    ),
    "CrossBatchMemoryLoss of proxies": lambda dtype=None, **kw: losses.CrossBatchMemoryLoss(
        losses.ProxyNCALoss(NUM_CLASSES, DIM, dtype=dtype, **kw), BATCH // 2, DIM, start_step=1, dtype=dtype
    ),
    "MarginLoss": lambda **kw: losses.MarginLoss(NUM_CLASSES, 0.2, 1.0, **kw),
    "NPairLoss": lambda **kw: losses.NPairLoss(4.0, norm_penalty=0.1, **kw),
    "LiftedStructureLoss": lambda **kw: losses.LiftedStructureLoss(0.9, **kw),
    "QuadrupletLoss": lambda **kw: losses.QuadrupletLoss(0.2, 0.3, **kw),
    "AngularLoss": lambda **kw: losses.AngularLoss(45.0, **kw),
    "HistogramLoss": lambda **kw: losses.HistogramLoss(11, **kw),
    "SignalToNoiseLoss": lambda **kw: losses.SignalToNoiseLoss(positive_margin=0.1, negative_margin=1.3, **kw),
    "NormalizedSoftmaxLoss": lambda **kw: losses.NormalizedSoftmaxLoss(NUM_CLASSES, DIM, temperature=0.2, **kw),
    "ArcFaceLoss of centers": lambda **kw: losses.ArcFaceLoss(NUM_CLASSES, DIM, scale=8.0, centers_per_class=2, **kw),
    "ArcFaceLoss": lambda **kw: losses.ArcFaceLoss(NUM_CLASSES, DIM, scale=8.0, **kw),
    "CircleLoss": lambda **kw: losses.CircleLoss(
        0.4, 8.0, constant_weights=False, **kw
    ),  # else not the value's gradient
    "MinedLoss": lambda dtype=None, **kw: losses.MinedLoss(
        losses.MarginLoss(NUM_CLASSES, dtype=dtype, **kw), "distance_weighted", rho_probability=0.3, dtype=dtype
    ),
    "MinedLoss of a distribution": lambda dtype=None, **kw: losses.MinedLoss(
        losses.MarginLoss(NUM_CLASSES, dtype=dtype, **kw), SamplingDistribution(5, 0.1, 2.0, None), dtype=dtype
    ),
    "WeightedSumLoss": lambda dtype=None, **kw: losses.WeightedSumLoss(
        [losses.TripletLoss(0.3, dtype=dtype, **kw), losses.ProxyAnchorLoss(NUM_CLASSES, DIM, dtype=dtype, **kw)],
        [0.5, 2.0],
        dtype=dtype,
    ),
    "ComponentLoss": lambda dtype=None, **kw: losses.ComponentLoss(
        losses.MarginLoss(NUM_CLASSES, dtype=dtype, **kw), 1, DIM - 1, dtype=dtype
    ),
    "ComponentLoss of a memory": lambda dtype=None, **kw: losses.ComponentLoss(
        losses.CrossBatchMemoryLoss(
            losses.TripletLoss(0.3, dtype=dtype, **kw), 2 * BATCH, DIM - 1, start_step=0, dtype=dtype
        ),
        *(0, DIM - 1),
        dtype=dtype,
    ),
    "MatryoshkaLoss": lambda dtype=None, **kw: losses.MatryoshkaLoss(
        [losses.TripletLoss(0.3, dtype=dtype, **kw), losses.ProxyAnchorLoss(NUM_CLASSES, DIM, dtype=dtype, **kw)],
        *([2, DIM], [0.5, 1.0]),
        dtype=dtype,
    ),
    "SelfDistillationLoss": lambda dtype=None, **kw: losses.SelfDistillationLoss(
        [losses.TripletLoss(0.3, dtype=dtype, **kw), losses.ProxyAnchorLoss(NUM_CLASSES, 4, dtype=dtype, **kw)],
        *(2, DIM - 2, [4]),
        start_step=0,
        dtype=dtype,
    ),
    "DecorrelationLoss": lambda **kw: milbich_dml.DecorrelationLoss([2, DIM - 2], [(0, 1)], 10.0, hidden=8, **kw),
    # With weights the gradient is not the value's: they have none.
    "DistanceAdaptedContrastLoss": lambda **kw: milbich_dml.DistanceAdaptedContrastLoss(
        2 * BATCH, DIM, 0.5, weights="none", **kw
    ),
    "InTurnLoss": lambda dtype=None, **kw: milbich_dml.InTurnLoss(
        [losses.TripletLoss(0.3, dtype=dtype, **kw), losses.MarginLoss(NUM_CLASSES, dtype=dtype, **kw)], dtype=dtype
    ),
    "PermutedLabelsLoss": lambda dtype=None, **kw: milbich_dml.PermutedLabelsLoss(
        losses.TripletLoss(0.3, dtype=dtype, **kw), seed=1, dtype=dtype
    ),
    "LabelColumnLoss": lambda dtype=None, **kw: milbich_dml.LabelColumnLoss(
        losses.MarginLoss(NUM_CLASSES, dtype=dtype, **kw), "class", dtype=dtype
    ),
    "GroupLabelsLoss": lambda dtype=None, **kw: _grouped(losses.ContrastiveLoss(0.2, 0.9, dtype=dtype, **kw), dtype),
    "ViewLoss": lambda dtype=None, **kw: milbich_dml.ViewLoss(
        losses.MarginLoss(NUM_CLASSES, dtype=dtype, **kw), first_alone=True, dtype=dtype
    ),
    "HIERLoss": lambda **kw: losses.HIERLoss(
        DIM, num_proxies=8, num_neighbors=5, triplets_per_anchor=4, temperature=1.0, **kw
    ),
}


def _grouped(loss, dtype):
    """Each place in a group of its own, as if places were classes."""
    grouped = milbich_dml.GroupLabelsLoss(loss, NUM_CLASSES, dtype=dtype)
    grouped.set_groups(np.arange(NUM_CLASSES))
    return grouped


def exported_losses():
    """Every public loss but the abstract one, by name."""
    public = {name: getattr(losses, name) for name in losses.__all__ if inspect.isclass(getattr(losses, name))}
    return {
        name: kind
        for name, kind in public.items()
        if issubclass(kind, losses.MetricLoss) and kind is not losses.MetricLoss
    }


def row_of(loss):
    """A loss with its defaults, for the classes and the dimension of these batches."""
    sizes = {"num_classes": NUM_CLASSES, "embedding_dim": DIM}
    parameters = inspect.signature(loss.__init__).parameters.values()
    needed = [each.name for each in parameters if each.default is each.empty and each.name in sizes]
    return lambda **kw: loss(**{name: sizes[name] for name in needed}, **kw)


LOSSES = {**ROWS, **{name: row_of(kind) for name, kind in exported_losses().items() if name not in ROWS}}
