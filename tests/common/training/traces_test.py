import gc
import weakref

import numpy as np
import pytest
import tensorflow as tf

from common.training import TracedFunctions, training_session
from common.training.training_session import registered_gradients

SPEC = tf.TensorSpec([], tf.float32)


class Adder:
    """A model of one variable, which a step moves; `extra` is something else that its trace holds."""

    def __init__(self, start, extra=lambda: 0.0):
        self.total, self.extra = tf.Variable(start, dtype=tf.float32), extra
        self.num_traces = 0

    def trace(self):
        @tf.function(autograph=False)
        def step(amount):
            self.num_traces += 1
            return {"total": self.total.assign_add(tf.ones_like(self.total) * (amount + self.extra()))}

        return step.get_concrete_function(SPEC)

    def step(self, traces, kind="adder"):
        return traces.function(kind, "step", SPEC, self.trace, [self.total])


def value(outputs):
    return float(outputs["total"])


def test_the_next_model_uses_the_trace_with_its_own_variable():
    traces, first, second = TracedFunctions(), Adder(10.0), Adder(20.0)
    assert value(first.step(traces)(tf.constant(1.0))) == 11.0
    assert value(second.step(traces)(tf.constant(2.0))) == 22.0
    assert (first.total.numpy(), second.total.numpy()) == (11.0, 22.0)
    assert (first.num_traces, second.num_traces) == (1, 0)


def test_a_model_that_is_called_again_has_its_own_variable_back():
    traces, models = TracedFunctions(), [Adder(10.0), Adder(20.0)]
    steps = [model.step(traces) for model in models]
    for _ in range(3):
        for step in steps:
            step(tf.constant(1.0))
    traces.release()
    assert [value(step(tf.constant(1.0))) for step in steps] == [14.0, 24.0]


def test_another_kind_or_shape_has_a_trace_of_its_own():
    traces = TracedFunctions()
    models = [Adder(1.0), Adder(2.0), Adder([1.0, 2.0]), Adder(3.0)]
    for model, kind in zip(models, ("adder", "other", "adder", "adder")):
        model.step(traces, kind)(tf.constant(1.0))
    assert [model.num_traces for model in models] == [1, 1, 1, 0]


BOUND = {
    "a variable that is not named": lambda: tf.Variable(1.0),
    "a captured number": lambda: tf.constant([1.0, 2.0, 3.0, 4.0] * 8),
    "a seed": None,
    "a Python function": None,
}
READS = {
    "a variable that is not named": tf.convert_to_tensor,
    "a captured number": tf.reduce_sum,
    "a seed": lambda _: tf.random.uniform([], seed=3),
    "a Python function": lambda _: tf.numpy_function(lambda: np.float32(1), [], tf.float32),
}


@pytest.mark.parametrize("what", BOUND)
def test_a_trace_that_holds_something_else_is_not_shared(what):
    traces, models = TracedFunctions(), []
    for _ in range(2):
        held = BOUND[what] and BOUND[what]()
        models.append(Adder(1.0, extra=lambda held=held: READS[what](held)))
        models[-1].step(traces)(tf.constant(1.0))
    assert [model.num_traces for model in models] == [1, 1]


def test_the_variables_of_a_model_go_with_it():
    traces, model = TracedFunctions(), Adder(1.0)
    model.step(traces)(tf.constant(1.0))
    variable, handle = weakref.ref(model.total), weakref.ref(model.total.handle)
    traces.release()
    del model
    gc.collect()
    assert variable() is None
    assert handle() is None
    assert value(Adder(5.0).step(traces)(tf.constant(1.0))) == 6.0


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
