import numpy as np
import pytest
import tensorflow as tf

from common.losses import (
    ComponentLoss,
    CrossBatchMemoryLoss,
    MarginLoss,
    MinedLoss,
    MultiSimilarityLoss,
    ProxyNCALoss,
    TripletLoss,
    WeightedSumLoss,
)
from common.references import References
from tests.support.eager_functions import eagerly

BATCH, DIM = 12, 7


def random_batch(seed=0, size=BATCH):
    rng = np.random.default_rng(seed)
    return rng.normal(size=(size, DIM)), np.arange(size) % 4


@pytest.mark.parametrize("given", [False, True])
@pytest.mark.parametrize(
    "make", [TripletLoss, MarginLoss, MultiSimilarityLoss, lambda: MinedLoss(MarginLoss(), "inter_class", 0.3)]
)
def test_is_the_loss_of_the_slices(make, given):
    embeddings, labels = random_batch()
    references = References(*random_batch(1, 9), np.arange(9) != 3) if given else None
    cut = references and references._replace(embeddings=references.embeddings[:, 2:6])
    value = ComponentLoss(make(), 2, 4)(embeddings, labels, references)
    assert float(value) == float(make()(embeddings[:, 2:6], labels, cut))
    assert float(value) != float(make()(embeddings, labels, references))


@pytest.mark.parametrize("as_graph", [False, True])
def test_training_reaches_a_memory_in_a_sum(as_graph):
    memory_loss = CrossBatchMemoryLoss(MinedLoss(TripletLoss()), BATCH, 4, start_step=0)
    total = WeightedSumLoss([ComponentLoss(memory_loss, 0, 4), ComponentLoss(TripletLoss(), 4, 3)])
    batch = random_batch()
    step = tf.function(lambda: total(*batch, training=True), autograph=False)
    with eagerly(not as_graph):
        step()
    total(*batch)
    assert int(memory_loss.step) == 1
    assert int(memory_loss.loss.step) == 2  # once for the batch, once for the memory
    np.testing.assert_allclose(memory_loss.memory.embeddings, batch[0][:, :4], rtol=1e-6)


def test_proxies_are_those_of_the_slice():
    loss = ComponentLoss(ProxyNCALoss(4, 3), 0, 3)
    assert [tuple(variable.shape) for variable in loss.proxy_variables] == [(4, 3)]
    assert loss.normalization == "none"
