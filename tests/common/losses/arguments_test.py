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
        (lambda: losses.RecallAtKLoss(()), r"ks: received \(\), expected numbers of at least 1"),
        (lambda: losses.WeightedSumLoss([TripletLoss()], [1.0, 2.0]), "Invalid weights.*one number for each of 1 loss"),
        (lambda: CrossBatchMemoryLoss(TripletLoss(), 0, 4), "memory_size: received 0"),
        (lambda: CrossBatchMemoryLoss(TripletLoss(), 8, 4, weight=2.0, terms="union"), "weight: received 2.0"),
        (lambda: CrossBatchMemoryLoss(TripletLoss(), 8, 4, enqueue_first=True, terms="union"), "enqueue_first"),
        (lambda: CrossBatchMemoryLoss(PNCA, 8, 4, terms="union"), "received 'ProxyLoss', expected o"),
        (
            lambda: CrossBatchMemoryLoss(losses.WeightedSumLoss([MinedLoss(TripletLoss())]), 8, 4, terms="union"),
            "loss: received 'MinedLoss', expected one of all pairs",
        ),
        *(
            (lambda pairs=pairs: DecorrelationLoss((3, 2), pairs, 1.0), "pairs: received .* of different positions")
            for pairs in ([], [(1, 1)], [(0, 3)])
        ),
        *(
            (lambda settings=settings: milbich_dml.DistanceAdaptedContrastLoss(4, 4, **settings), message)
            for settings, message in (
                ({"weights": "code"}, "weights: received 'code', expected one of anchor, batch, print, none"),
                ({"weights": "print"}, "clip: received None, expected a number with weights='print'"),
                ({"clip": 1.0}, "clip: received 1.0, expected a number with weights='print', and None with others"),
            )
        ),
        (lambda: LabelColumnLoss(TripletLoss(), "name"), "column: received 'name', expected one of class, place"),
        (lambda: MinedLoss(TripletLoss(), "hard"), "miner: received 'hard', expected one of random, semi_hard, soft_h"),
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
