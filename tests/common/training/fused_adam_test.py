import collections

import numpy as np
import pytest
import tensorflow as tf

from common.training import FusedAdam, FusedAdamW
from common.training.gradients import apply_gradients
from tests.common.training.adam_formula import adam_by_hand
from tests.support.samples import sampled

keras = tf.keras
PAIRS = [(FusedAdam, keras.optimizers.Adam), (FusedAdamW, keras.optimizers.AdamW)]
SHAPES = ((3, 4), (5,), ())
RATE = 2.0**-6  # a float32 to the bit
# An epsilon that counts beside the root of the second moment, and moments that nobody could take for each other.
PLAIN = {"learning_rate": RATE, "beta_1": 0.75, "beta_2": 0.96, "epsilon": 0.05}
SETTINGS = {
    "plain": PLAIN,
    "clipped": {**PLAIN, "global_clipnorm": 0.3},
    "averaged": {**PLAIN, "use_ema": True, "ema_momentum": 0.5, "ema_overwrite_frequency": 7},
    "schedule": {**PLAIN, "learning_rate": keras.optimizers.schedules.ExponentialDecay(RATE, 40, 0.5)},
    "decayed": {**PLAIN, "weight_decay": 0.5},
}
NUM_STEPS = 40


def starts(dtype="float32"):
    rng = np.random.default_rng(0)
    return [(0.01 * rng.normal(size=shape)).astype(dtype) for shape in SHAPES]


def gradients_of(num_steps=NUM_STEPS, dtype="float32"):
    """For each step one of each variable, of sizes that change with the step."""
    rng = np.random.default_rng(1)
    sizes = 0.1 + rng.random(num_steps)
    return [[(size * rng.normal(size=shape)).astype(dtype) for shape in SHAPES] for size in sizes]


def variables_of(dtype="float32"):
    return [tf.Variable(value, name=f"w{place}") for place, value in enumerate(starts(dtype))]


def stepper(optimizer, variables, how):
    """One step of an optimiser: eagerly, in a graph, or compiled by XLA."""
    optimizer.build(variables)
    optimizer.jit_compile = how != "graph"  # Keras 2, by default on a GPU: of each variable's update

    def step(*gradients):
        optimizer.apply_gradients(list(zip(gradients, variables)))

    return step if how == "eager" else tf.function(step, autograph=False, jit_compile=how == "xla")


def trained(optimizer, steps, how="graph", dtype="float32"):
    """The variables after a step with the gradients of each of `steps`."""
    variables = variables_of(dtype)
    step = stepper(optimizer, variables, how)
    for gradients in steps:
        step(*map(tf.constant, gradients))
    return [variable.numpy() for variable in variables]


def assert_moved_alike(found, expected, tolerance):
    """Relative to how far each variable was moved."""
    for one, other, start in zip(found, expected, starts(), strict=True):
        largest = np.abs(other - start).max()
        assert largest > RATE
        np.testing.assert_allclose(one - start, other - start, rtol=0, atol=tolerance * largest)


@sampled("fused, how", [FusedAdam, FusedAdamW], ["eager", "graph", "xla"])
def test_the_formula_in_float64(fused, how):
    steps, decay = gradients_of(dtype="float64"), 0.5
    found = trained(fused(**PLAIN, weight_decay=decay), steps, how, "float64")
    for place, start in enumerate(starts("float64")):
        by_hand = adam_by_hand(start, [step[place] for step in steps], RATE, 0.96, 0.05, beta_1=0.75, decay=decay)
        np.testing.assert_allclose(found[place], by_hand, rtol=1e-12)


@sampled("pair, settings, how", PAIRS, list(SETTINGS), ["eager", "graph", "xla"])
def test_the_weights_of_keras(pair, settings, how):
    fused, own = pair
    found, expected = (trained(kind(**SETTINGS[settings]), gradients_of(), how) for kind in (fused, own))
    assert_moved_alike(found, expected, 3e-6)


@pytest.mark.parametrize(("fused", "own"), PAIRS)
def test_weights_that_are_not_decayed(fused, own):
    found = []
    for kind in (fused, own):
        variables = variables_of()
        optimizer = kind(**SETTINGS["decayed"])
        optimizer.exclude_from_weight_decay(var_list=variables[1:])
        step = stepper(optimizer, variables, "graph")
        step(*(tf.zeros(shape) for shape in SHAPES))
        found.append([variable.numpy() for variable in variables])
    for one, other, start, rate in zip(*found, starts(), (1 - RATE * 0.5, 1.0, 1.0)):
        np.testing.assert_array_equal(one, other)
        np.testing.assert_allclose(one, rate * start, rtol=1e-6)


@pytest.mark.parametrize(("fused", "own"), PAIRS)
def test_slots_can_be_exchanged_with_keras(fused, own):
    steps = gradients_of()
    for first, second in ((fused, own), (own, fused)):
        variables = variables_of()
        begun, goes_on = first(**PLAIN), second(**PLAIN)
        begin, go_on = (stepper(optimizer, variables, "graph") for optimizer in (begun, goes_on))
        for gradients in steps[: NUM_STEPS // 2]:
            begin(*map(tf.constant, gradients))
        assert [v.shape for v in begun.variables] == [v.shape for v in goes_on.variables]
        for slot, value in zip(goes_on.variables, begun.variables):
            slot.assign(np.array(value))
        for gradients in steps[NUM_STEPS // 2 :]:
            go_on(*map(tf.constant, gradients))
        assert_moved_alike([v.numpy() for v in variables], trained(own(**PLAIN), steps), 3e-6)


def operations(function, *args):
    """How many of each type are in its graph and in those that it calls."""
    graph = function.get_concrete_function(*args).graph.as_graph_def()
    nodes = [*graph.node, *(node for called in graph.library.function for node in called.node_def)]
    return collections.Counter(node.op for node in nodes)


@pytest.mark.parametrize("scaled", [False, True])
@pytest.mark.parametrize("fused", [FusedAdam, FusedAdamW])
def test_one_operation_for_each_variable(fused, scaled):
    optimizer, variables = fused(**PLAIN), variables_of()
    if scaled:
        optimizer = keras.mixed_precision.LossScaleOptimizer(optimizer)
    optimizer.build(variables)
    function = tf.function(lambda *grads: apply_gradients(optimizer, list(grads), variables), autograph=False)
    found = operations(function, *map(tf.constant, starts()))
    assert found["ResourceApplyAdam"] == len(SHAPES)
    assert found["Pow"] == 2  # of the moments' factors, once for all variables
    assert (found["Sqrt"], found["Square"]) == (0, 0)


@pytest.mark.parametrize("how", ["graph", "eager"])
def test_steps_in_one_function_have_their_own_bias_correction(how):
    steps = gradients_of()
    variables, optimizer = variables_of(), FusedAdam(**PLAIN)
    step = stepper(optimizer, variables, "eager")

    def all_steps():
        for gradients in steps:
            step(*map(tf.constant, gradients))

    (all_steps if how == "eager" else tf.function(all_steps, autograph=False))()
    assert_moved_alike([v.numpy() for v in variables], trained(FusedAdam(**PLAIN), steps), 1e-7)


@sampled(
    "pair, how, case",
    PAIRS,
    ["eager", "graph"],
    [("float32", {}, True), ("float32", {"amsgrad": True}, False), ("bfloat16", {}, False)],
)
def test_what_is_left_to_keras(pair, how, case):
    (fused, own), (dtype, settings, sparse) = pair, case
    found = []
    for kind in (fused, own):
        variable, optimizer = tf.Variable(tf.cast(starts()[0], dtype)), kind(**PLAIN, **settings)
        step = stepper(optimizer, [variable], how)
        for gradients in gradients_of(6):
            gradient = tf.cast(gradients[0], dtype)
            step(tf.IndexedSlices(gradient[:2], tf.constant([2, 0]), tf.constant([3, 4])) if sparse else gradient)
        found.append(variable.numpy().astype("float32"))
    assert not np.array_equal(found[0], starts()[0])
    np.testing.assert_array_equal(*found)


@sampled("pair, how", PAIRS, ["eager", "graph"])
def test_a_scaled_loss_and_a_step_that_is_left_out(pair, how):
    fused, own = pair
    steps = gradients_of(9)
    steps.insert(4, [np.full(shape, np.inf, "float32") for shape in SHAPES])
    found = []
    for kind in (fused, own):
        variables = variables_of()
        optimizer = keras.mixed_precision.LossScaleOptimizer(kind(**PLAIN))
        optimizer.build(variables)
        step = scaled_step(optimizer, variables, how)
        for gradients in steps:
            step(*map(tf.constant, gradients))
        found.append([variable.numpy() for variable in variables])
    assert_moved_alike(*found, 3e-6)


def scaled_step(optimizer, variables, how):
    def step(*gradients):
        apply_gradients(optimizer, list(gradients), variables)

    return step if how == "eager" else tf.function(step, autograph=False)
