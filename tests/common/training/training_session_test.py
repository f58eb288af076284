import gc
import weakref

import pytest
import tensorflow as tf

from common.training import training_session
from common.training.training_session import registered_gradients


class Doubling(tf.Module):
    """A variable behind a custom gradient, as GSP's costs are."""

    def __init__(self):
        super().__init__()
        self.weight = tf.Variable(3.0)

    @tf.function
    def gradient(self):
        @tf.custom_gradient
        def double(x):
            return 2.0 * x, lambda upstream: 2.0 * upstream

        with tf.GradientTape() as tape:
            value = double(self.weight * 1.0)
        return tape.gradient(value, self.weight)


def graph_of_a_training() -> weakref.ref:
    module = Doubling()
    assert module.gradient().numpy() == 2.0
    return weakref.ref(module.gradient.get_concrete_function().graph)


def test_the_graph_of_a_training_goes_with_it():
    before = registered_gradients()
    with training_session(0):
        graph = graph_of_a_training()
        assert len(registered_gradients()) > len(before)
    gc.collect()
    assert graph() is None
    assert registered_gradients() == before


def test_what_was_traced_before_still_has_its_gradient():
    @tf.custom_gradient
    def double(x):
        return 2.0 * x, lambda upstream: 7.0 * upstream

    traced = tf.function(double)
    assert traced(tf.constant(1.0)).numpy() == 2.0  # the gradient is looked up when it is asked for
    with training_session(0):
        graph_of_a_training()
    x = tf.constant(1.0)
    with tf.GradientTape() as tape:
        tape.watch(x)
        value = traced(x)
    assert tape.gradient(value, x).numpy() == 7.0


def test_an_error_passes_and_leaves_nothing():
    before = registered_gradients()
    with pytest.raises(KeyError), training_session(0):
        {}[graph_of_a_training()]
    assert registered_gradients() == before


def test_the_seed_decides():
    drawn = []
    for seed in (5, 5, 6):
        with training_session(seed):
            drawn.append(float(tf.random.normal([])))
    assert drawn[0] == drawn[1] != drawn[2]
