import numpy as np
import pytest

import milbich_dml
from common import losses
from common.errors import InvalidInput
from common.losses import CrossBatchMemoryLoss, MinedLoss, TripletLoss
from common.references import References
from milbich_dml import DecorrelationLoss, LabelColumnLoss, ViewLoss

BATCH = np.random.default_rng(0).normal(size=(6, 4)), np.array([0, 0, 1, 1, 2, 2])
PNCA = losses.ProxyNCALoss(3, 4)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        *(
            (lambda angle=angle: losses.AngularLoss(angle), rf"angle: received {angle}, expected a number in \(0, 60\]")
            for angle in (0.0, 61.0)
        ),
        *(
            (
                lambda loss=loss, margin=margin: loss(4, 2, margin=margin),
                f"margin: received {margin}, expected a number in",
            )
            for loss in (losses.ArcFaceLoss, losses.CosFaceLoss)
            for margin in (-0.1, 28.6)
        ),
        (lambda: losses.CodingRateLoss(0.0), "precision: received 0"),
        (lambda: losses.ContrastiveLoss(negative_margin=-0.1), "negative_margin: received -0.1"),
        (lambda: losses.ContrastiveLoss(normalization="l2"), "normalization: received 'l2', expected one of unit, cl"),
        (lambda: losses.CosineContrastiveLoss(reduction="mean"), "reduction.*'mean'.*sum, mean_of_active"),
        (lambda: losses.FastAPLoss(0), "num_bins: received 0"),
        (lambda: losses.HistogramLoss(1), "num_nodes: received 1, expected a whole number in \\[2, inf"),
        (lambda: losses.PenalizedNegativesLoss("other"), "penalty: received 'other'"),
        (lambda: losses.ProxyNCALoss(3, 3, denominator="none"), "denominator: received 'none', expected one of all, n"),
        (lambda: losses.ProxyNCALoss(4, 2, temperature=0), "temperature: received 0, expected a number greater than 0"),
        (lambda: losses.RecallAtKLoss(()), r"ks: received \(\), expected numbers of at least 1"),
        (lambda: losses.SignalToNoiseLoss("pairs"), "terms: received 'pairs', expected one of contrastive, triplet"),
        (lambda: losses.SmoothAPLoss(0.0), "temperature: received 0.0"),
        (lambda: losses.SupervisedContrastiveLoss(0.0), "temperature: received 0.0"),
        (lambda: TripletLoss(mining="hard"), "mining: received 'hard', expected one of none, semi_hard, nearest_semi"),
        (lambda: TripletLoss(anchors="proxies"), "anchors: received 'proxies', expected one of embeddings, references"),
        (lambda: losses.WeightedSumLoss([TripletLoss()], [1.0, 2.0]), "Invalid weights.*one number for each of 1 loss"),
        (lambda: CrossBatchMemoryLoss(TripletLoss(), 0, 4), "memory_size: received 0"),
        (
            lambda: losses.ComponentLoss(TripletLoss(), -1, 4),
            "first: received -1, expected a whole number",
        ),
        (lambda: losses.ComponentLoss(TripletLoss(), 0, 0), "size: received 0, expected a whole number greater than 0"),
        *(
            (lambda pairs=pairs: DecorrelationLoss((3, 2), pairs, 1.0), "pairs: received .* of different positions")
            for pairs in ([], [(1, 1)], [(0, 3)])
        ),
        (lambda: DecorrelationLoss((3, 2), [(0, 1)], -1.0), "weight: received -1.0, expected a number greater than or"),
        *(
            (lambda settings=settings: milbich_dml.DistanceAdaptedContrastLoss(4, 4, **settings), message)
            for settings, message in (
                ({"weights": "code"}, "weights: received 'code', expected one of anchor, batch, print, none"),
                ({"temperature": 0.0}, "temperature: received 0.0, expected a number greater than 0"),
                ({"weights": "print"}, "clip: received None, expected a number with weights='print'"),
                ({"clip": 1.0}, "clip: received 1.0, expected a number with weights='print', and None with others"),
            )
        ),
        (lambda: LabelColumnLoss(TripletLoss(), "name"), "column: received 'name', expected one of class, place"),
        (lambda: MinedLoss(TripletLoss(), "hard"), "miner: received 'hard', expected one of random, semi_hard, soft_h"),
        (lambda: MinedLoss(TripletLoss(), rho_probability=1.5), r"rho_probability: received 1.5, expected a number in"),
        (lambda: MinedLoss(TripletLoss(), "multi_similarity", rho_probability=0.5), "0.5, expected 0 with"),
        *(
            (lambda loss=loss: MinedLoss(loss), f"loss: received '{type(loss).__name__}', expected a loss over")
            for loss in (PNCA, losses.WeightedSumLoss([TripletLoss(), PNCA]))
        ),
    ],
)
def test_what_a_loss_is_not_made_of_is_named(make, message):
    with pytest.raises(InvalidInput, match=message):
        make()


@pytest.mark.parametrize(
    ("loss", "given", "message"),
    [
        (TripletLoss(), (BATCH[0][:, None], BATCH[1]), r"shape of embeddings: received \(6, 1, 4\), expected \[batch,"),
        (losses.ComponentLoss(TripletLoss(), 2, 4), BATCH, "dimension of embeddings: received 4, expected at least 6"),
        (DecorrelationLoss((3, 2), [(0, 1)], 1.0), BATCH, "embeddings: received 4, expected 5"),
        (LabelColumnLoss(TripletLoss(), "place"), BATCH, r"shape of labels: received \(6,\), expected \[batch, 2\]"),
        (MinedLoss(TripletLoss(anchors="references")), BATCH, "anchors: received 'references', expected 'embeddings'"),
        (ViewLoss(TripletLoss(), first_alone=True), [part[:5] for part in BATCH], "5, expected an even number"),
        (ViewLoss(TripletLoss(), first_alone=False), (*BATCH, References(*BATCH)), "references: .*, expected none"),
    ],
)
def test_what_a_loss_is_not_called_with_is_named(loss, given, message):
    with pytest.raises(InvalidInput, match=message):
        loss(*given)


def test_the_old_order_of_arguments_is_taken_with_a_warning():
    with pytest.warns(DeprecationWarning, match="SoftTripleLoss: name .*: centers_per_class=, scale=.$") as found:
        loss = losses.SoftTripleLoss(3, 4, 5, 10.0, margin=0.1)
    assert (found[0].filename, loss.proxy_bank.proxies_per_class, loss.scale) == (__file__, 5, 10.0)
    with pytest.raises(TypeError, match="positional"):
        losses.SoftTripleLoss(3, 4, 5, centers_per_class=5)
