import numpy as np
import pytest

from common.errors import InvalidInput
from common.losses import ContrastiveLoss, CrossBatchMemoryLoss, MatryoshkaLoss, ProxyNCALoss, TripletLoss
from common.references import References
from tests.common.losses.component_loss_test import BATCH, DIM, random_batch


@pytest.mark.parametrize("given", [False, True])
def test_is_the_weighted_sum_of_the_losses_of_prefixes(given):
    embeddings, labels = random_batch()
    references = References(*random_batch(1, 9), np.arange(9) != 3) if given else None
    parts = [TripletLoss(dtype="float64"), ContrastiveLoss(dtype="float64"), TripletLoss(dtype="float64")]
    expected = 0.0
    for weight, part, length in zip((1.0, 0.5, 2.0), parts, (2, 3, DIM)):
        cut = references and references._replace(embeddings=references.embeddings[:, :length])
        expected += weight * float(part(embeddings[:, :length], labels, cut))
    loss = MatryoshkaLoss(parts, [2, 3, DIM], [1.0, 0.5, 2.0], dtype="float64")
    assert float(loss(embeddings, labels, references)) == pytest.approx(expected, rel=1e-12)


def test_one_memory_serves_all_lengths_and_proxies_are_of_each():
    loss = CrossBatchMemoryLoss(MatryoshkaLoss([TripletLoss(), TripletLoss()], [2, DIM]), BATCH, DIM, start_step=0)
    assert loss.normalization == "unit"
    first, second = random_batch(1), random_batch(2)
    loss(*first, training=True)
    value = float(loss(*second))
    expected = [TripletLoss()(second[0][:, :m], second[1], *rest(m, first)) for m in (2, DIM) for rest in (_none, _of)]
    assert value == pytest.approx(float(sum(expected)), rel=1e-5)
    proxies = MatryoshkaLoss([ProxyNCALoss(4, 2), ProxyNCALoss(4, DIM)], [2, DIM]).proxy_variables
    assert [tuple(each.shape) for each in proxies] == [(4, 2), (4, DIM)]


def _none(length, batch):
    return ()


def _of(length, batch):
    return (References(batch[0][:, :length], batch[1]),)


@pytest.mark.parametrize("lengths", [[2], [2, 2], [0, 2], [3, 2]])
def test_lengths_that_do_not_increase_or_fit_are_refused(lengths):
    with pytest.raises(InvalidInput, match="Invalid lengths.*expected 2 increasing numbers of components"):
        MatryoshkaLoss([TripletLoss(), TripletLoss()], lengths)
    with pytest.raises(InvalidInput, match="dimension of embeddings: received 7, expected at least 8"):
        MatryoshkaLoss([TripletLoss(), TripletLoss()], [2, 8])(*random_batch())
