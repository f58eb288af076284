import numpy as np
import pytest
import tensorflow as tf

from gsp_dml.transport_pooling import CompiledPooling, PoolingInputs, PoolingSettings, transport_pooling

BATCH, POSITIONS, CHANNELS, PROTOTYPES = 3, 7, 5, 4
MASK = tf.constant([[True] * 7, [True] * 4 + [False] * 3, [True] * 6 + [False]])
DEFAULTS = PoolingSettings(0.4, 5.0, "exact", 5, return_attributes=True, return_plan=True)


def inputs(ratio=None, mask=None, has_prototypes=None) -> PoolingInputs:
    generator = np.random.default_rng(0)
    features = generator.normal(size=[BATCH, POSITIONS, CHANNELS]).astype(np.float32)
    prototypes = generator.normal(size=[PROTOTYPES, CHANNELS]).astype(np.float32)
    return PoolingInputs(tf.constant(features), tf.constant(prototypes), ratio, mask, has_prototypes)


def alternating(shape):
    """1, -2, 3, 1, -2, ...: a different weight for neighbours."""
    return np.resize([1.0, -2.0, 3.0], shape).astype(np.float32)


def outputs_and_gradients(pooling, given: PoolingInputs):
    """Of a loss that is not linear in any output."""
    sources = [tensor for tensor in given[:3] if tensor is not None]
    with tf.GradientTape() as tape:
        tape.watch(sources)
        pooled, transport = pooling(given)
        outputs = [output for output in (pooled, *transport[1:]) if output is not None]
        loss = tf.add_n([tf.reduce_sum(tf.sin(3.0 * output) * alternating(output.shape)) for output in outputs])
    return outputs, tape.gradient(loss, sources, unconnected_gradients="zero")


@pytest.mark.slow
@pytest.mark.one_in(5)
@pytest.mark.parametrize(
    ("given", "returned"),
    [
        ({"ratio": tf.constant(0.3), "mask": MASK}, (True, True)),
        ({"ratio": tf.constant(0.3)}, (False, True)),
        ({}, (False, False)),
        ({"has_prototypes": tf.constant(False)}, (True, True)),
        ({"has_prototypes": tf.constant(True), "ratio": tf.constant(0.6)}, (True, False)),
    ],
    ids=["ratio_and_mask", "trained_ratio", "number", "no_prototypes", "prototypes"],
)
def test_two_programs_are_the_function_and_its_gradient(given, returned):
    given = inputs(**given)
    settings = DEFAULTS._replace(return_attributes=returned[0], return_plan=returned[1])
    if given.ratio is not None:
        settings = settings._replace(transport_ratio=None)
    expected, expected_gradients = outputs_and_gradients(lambda x: transport_pooling(x, settings), given)
    found, gradients = outputs_and_gradients(CompiledPooling(settings), given)
    assert len(found) == len(expected) == 1 + sum(returned)
    for one, other in zip([*found, *gradients], [*expected, *expected_gradients]):
        np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-5)


def test_without_prototypes_padding_does_not_count():
    mask = tf.constant([[True] * 7, [True] * 4 + [False] * 3, [False] * 5 + [True] * 2])
    given = inputs(mask=mask, has_prototypes=tf.constant(False))
    expected = [features[valid].mean(axis=0) for features, valid in zip(given.features.numpy(), mask.numpy())]
    for pooling in (lambda x: transport_pooling(x, DEFAULTS), CompiledPooling(DEFAULTS)):
        np.testing.assert_allclose(pooling(given)[0], expected, atol=1e-6)


@pytest.mark.parametrize("as_graph", [False, pytest.param(True, marks=pytest.mark.release)])
def test_second_derivatives_of_the_compiled_programs_are_those_of_the_function(as_graph):
    single, settings = inputs(ratio=tf.constant(0.4), mask=MASK), DEFAULTS._replace(transport_ratio=None)
    doubles = PoolingInputs(*(tf.cast(x, tf.float64) for x in single[:3]), single.mask, None)

    def second_derivatives(pooling):
        def compute():
            with tf.GradientTape() as tape:
                tape.watch(doubles[:3])
                _, gradients = outputs_and_gradients(pooling, doubles)
                value = tf.add_n([tf.reduce_sum(tf.cos(gradient)) for gradient in gradients])
            return tape.gradient(value, doubles[:3])

        return (tf.function(compute, autograph=False) if as_graph else compute)()

    expected = second_derivatives(lambda x: transport_pooling(x, settings))
    for found, value in zip(second_derivatives(CompiledPooling(settings)), expected):
        assert np.abs(value).max() > 1e-3
        np.testing.assert_allclose(found, value, rtol=1e-6, atol=1e-9)
