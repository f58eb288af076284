import numpy as np
import pytest
import tensorflow as tf

from common.errors import InvalidInput
from common.losses import ProxyNCALoss
from common.training import FusedAdam, MetricModel, fit_on_hosts

keras = tf.keras
pytestmark = pytest.mark.default_stack


def model():
    keras.utils.set_random_seed(0)
    network = keras.Sequential([keras.Input([5]), keras.layers.Dense(3)])
    made = MetricModel(network, ProxyNCALoss(4, 3), proxy_multiplier=10.0)
    made.compile(FusedAdam(0.01))
    return made


def batches_from(step):
    inputs = np.random.default_rng(0).normal(size=(6 * 8, 5)).astype(np.float32)
    return tf.data.Dataset.from_tensor_slices((inputs, np.tile(np.arange(4), 12))).batch(8).skip(step)


def test_a_resumed_training_has_the_weights_of_one_without_a_stop(tmp_path):
    whole, stopped, resumed = model(), model(), model()
    losses = fit_on_hosts(whole, batches_from, tmp_path / "whole", max_steps=6, steps_per_checkpoint=2)
    first = fit_on_hosts(stopped, batches_from, tmp_path / "run", max_steps=3, steps_per_checkpoint=2)  # saved: 2
    last = fit_on_hosts(resumed, batches_from, tmp_path / "run", max_steps=6, steps_per_checkpoint=2)
    assert [first[0], *last] == losses
    for one, other in zip(resumed.weights, whole.weights, strict=True):
        np.testing.assert_array_equal(one, other)
    assert fit_on_hosts(model(), batches_from, tmp_path / "run", max_steps=6, steps_per_checkpoint=2) == []
    with pytest.raises(InvalidInput, match="batches_from: received '6 batches', expected 7"):
        fit_on_hosts(model(), batches_from, tmp_path / "run", max_steps=7, steps_per_checkpoint=2)
    with pytest.raises(InvalidInput, match="another configuration .*steps_per_checkpoint"):
        fit_on_hosts(model(), batches_from, tmp_path / "run", max_steps=6, steps_per_checkpoint=3)


def test_a_loss_that_is_not_finite_is_not_saved(tmp_path):
    def broken(step):
        return batches_from(step).map(lambda inputs, labels: (inputs * np.nan, labels))

    with pytest.raises(InvalidInput, match="The loss is nan between steps 0 and 2"):
        fit_on_hosts(model(), broken, tmp_path, max_steps=6, steps_per_checkpoint=2)
    assert not (tmp_path / "checkpoint.npz").exists()
