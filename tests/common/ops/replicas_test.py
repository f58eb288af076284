"""Without replicas nothing is gathered; a loss of a part warns once. Numbers: tests/conformance/replicas_test.py."""

import threading
import warnings

import numpy as np
import pytest
import tensorflow as tf

from common.losses import ContrastiveLoss, TripletLoss
from common.ops import replicas


@pytest.fixture
def strategy(monkeypatch):
    """Two replicas that are one device in turn: enough for Python to run in a replica context of two."""
    monkeypatch.setattr(replicas, "num_replicas", lambda: 2)
    monkeypatch.setattr(replicas, "_warned", set())


def test_one_device_gathers_nothing():
    values = tf.constant([[1.0, 2.0]])
    assert replicas.num_replicas() == 1
    assert replicas.gather_over_replicas(values) is values
    assert replicas.sum_over_replicas([values])[0] is values
    assert int(replicas.first_row_of_replica(tf.constant(3))) == 0


def test_a_loss_of_a_part_warns_once_for_each_loss(strategy):
    embeddings, labels = np.random.default_rng(0).normal(size=(4, 3)), np.array([0, 0, 1, 1])
    with pytest.warns(UserWarning, match=r"^TripletLoss is called in each of 2 replicas .*MetricModel"):
        TripletLoss()(embeddings, labels)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        TripletLoss()(embeddings, labels)
        with replicas.of_the_global_batch():
            ContrastiveLoss()(embeddings, labels)
    with pytest.warns(UserWarning, match="ContrastiveLoss"):
        ContrastiveLoss()(embeddings, labels)


def test_one_replicas_thread_says_nothing_of_another(strategy):
    seen = []

    def call():
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            replicas.warn_of_a_part("Loss")
            seen.extend(caught)

    with replicas.of_the_global_batch():
        thread = threading.Thread(target=call)
        thread.start()
        thread.join()
    assert len(seen) == 1
