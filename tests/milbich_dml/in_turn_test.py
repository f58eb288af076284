import numpy as np
import pytest
import tensorflow as tf

from common.losses import ContrastiveLoss, MarginLoss, MinedLoss, TripletLoss, WeightedSumLoss
from milbich_dml import InTurnLoss
from tests.support.eager_functions import eagerly


def random_batch(seed=0):
    return np.random.default_rng(seed).normal(size=(12, 4)), np.arange(12) % 4


@pytest.mark.parametrize("as_graph", [False, True])
def test_losses_take_turns_in_training_steps(as_graph):
    parts = [TripletLoss(0.3), ContrastiveLoss(), MarginLoss()]
    loss, batch = InTurnLoss(parts), random_batch()
    step = tf.function(lambda: loss(*batch, training=True), autograph=False)
    with eagerly(not as_graph):
        found = [float(step()) for _ in range(5)]
    expected = [float(parts[turn](*batch)) for turn in (0, 1, 2, 0, 1)]
    np.testing.assert_allclose(found, expected, rtol=1e-6)
    assert len(set(found)) == 3
    assert [float(loss(*batch)) for _ in range(2)] == [float(loss(*batch))] * 2  # the turn stays outside of training


def test_a_loss_that_waits_has_no_gradient_and_keeps_its_counters():
    mined, margin = MinedLoss(TripletLoss(0.3)), MarginLoss()
    loss, batch = WeightedSumLoss([InTurnLoss([mined, margin])]), random_batch()
    with tf.GradientTape() as tape:
        value = loss(*batch, training=True)
    gradient = tape.gradient(value, margin.boundaries)
    assert gradient is None or not np.any(gradient)
    assert int(mined.step) == 1
    with tf.GradientTape() as tape:
        value = loss(*batch, training=True)
    assert np.any(tape.gradient(value, margin.boundaries))
    assert int(mined.step) == 1
    assert [id(variable) for variable in loss.proxy_variables] == [id(margin.boundaries)]
