import numpy as np
import pytest
import tensorflow as tf

from common import backbones
from common.backbones import cut_network, folded_network, freeze_batch_norm
from common.backbones.convolution import batch_normalization, convolution, depthwise_convolution, rectifier

keras = tf.keras
# Each, and how many of its batch normalisations have a convolution of their own below. The other layout of ResNet-50
# has the same blocks; `conformance_test` compares it in float32.
BACKBONES = [
    (backbones.resnet10, 11),
    (backbones.resnet_v2_20, 13),  # 6 of its 19 normalise sums
    (backbones.mobilenet_v2, 52),
    *(
        pytest.param(build, num_folded, marks=pytest.mark.release)
        for build, num_folded in (
            (backbones.resnet20, 21),
            (backbones.bn_inception, 69),
            (backbones.efficientnet_lite0, 49),
            (backbones.resnet50, 53),
        )
    ),
]


@pytest.fixture
def double_precision():
    keras.backend.set_floatx("float64")
    keras.mixed_precision.set_global_policy("float64")
    yield
    keras.backend.set_floatx("float32")
    keras.mixed_precision.set_global_policy("float32")


def with_statistics(network):
    """The network with batch normalisation of other statistics, scales and offsets than those it begins with."""
    rng = np.random.default_rng(0)
    for layer in network.layers:
        if isinstance(layer, keras.layers.BatchNormalization):
            made = [rng.uniform(0.8, 1.2, weight.shape) for weight in layer.weights]
            shifts = slice(int(layer.scale), len(made) - 1)  # offset and mean
            made[shifts] = [value - 1 for value in made[shifts]]
            layer.set_weights(made)
    return network


def images_of(channels, side=32):
    return tf.constant(np.random.default_rng(1).integers(0, 256, (2, side, side, channels), dtype=np.uint8))


def embeddings(function, images, training=False):
    averages = tf.reduce_mean(function(images, training=training), axis=[1, 2])
    return averages / tf.norm(averages, axis=1, keepdims=True)


def trained_embeddings(function, variables, images):
    """Embeddings in training mode, and a gradient through them."""
    with tf.GradientTape() as tape:
        found = embeddings(function, images, training=True)
        loss = tf.reduce_sum(found * np.random.default_rng(2).normal(size=found.shape))
    return found, tape.gradient(loss, variables)


def assert_trains_alike(network, images):
    """Compares embeddings and the gradients of all trained weights; returns how many normalisations are folded."""
    folded, num_folded = folded_network(network)
    weights = list(network.trainable_variables)
    expected, expected_gradients = trained_embeddings(network, weights, images)
    found, gradients = trained_embeddings(folded, weights, images)
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-9)
    assert len(gradients) == len(weights) > 0
    for gradient, wanted in zip(gradients, expected_gradients):
        np.testing.assert_allclose(gradient, wanted, rtol=0, atol=1e-9 * np.linalg.norm(wanted))
    return num_folded


@pytest.mark.parametrize(("build", "num_folded"), BACKBONES)
def test_every_backbone(build, num_folded, double_precision):
    network = with_statistics(build(3, frozen_batch_norm=True))
    assert assert_trains_alike(network, images_of(3)) == num_folded
    if build is backbones.resnet10:
        parts = cut_network(network, "layer3.1")
        assert assert_trains_alike(parts, images_of(3)) == num_folded
        assert len(parts.trainable_variables) == 2


@pytest.mark.parametrize(
    "below",
    [
        keras.layers.Conv2D(4, 3, strides=2, padding="same", dilation_rate=1, bias_initializer="ones"),
        keras.layers.Conv2D(4, 3, dilation_rate=2, use_bias=False),
        keras.layers.DepthwiseConv2D(3, strides=2, depth_multiplier=2, bias_initializer="ones"),
        keras.layers.DepthwiseConv2D(3, padding="same", dilation_rate=2, use_bias=False),
    ],
)
@pytest.mark.parametrize("settings", [{}, {"scale": False}, {"center": False, "epsilon": 0.1}])
def test_every_kind_of_convolution_and_normalisation(below, settings, double_precision):
    images, above = keras.Input((None, None, 3)), keras.layers.BatchNormalization(**settings)
    maps = type(below).from_config({**below.get_config(), "dtype": "float64"})(images)
    network = with_statistics(freeze_batch_norm(keras.Model(images, above(maps))))
    assert assert_trains_alike(network, images_of(3, side=9)) == 1


@pytest.mark.parametrize("kind", ["used elsewhere", "an output", "an activation", "groups", "shared", "a sum", "axis"])
def test_what_is_more_than_a_convolution_is_not_folded(kind):
    groups, activation = (3 if kind == "groups" else 1), ("relu" if kind == "an activation" else None)
    below = keras.layers.Conv2D(3, 1, groups=groups, activation=activation)
    norm = keras.layers.BatchNormalization(axis=1 if kind == "axis" else -1)
    inputs = keras.Input((5, 5, 3))
    x = below(inputs)
    if kind == "shared":
        x = below(x)
    y = norm(keras.layers.Add()([x, inputs]) if kind == "a sum" else x)
    if kind == "used elsewhere":
        y = keras.layers.Add()([x, y])
    network = with_statistics(freeze_batch_norm(keras.Model(inputs, [x, y] if kind == "an output" else y)))
    folded, num_folded = folded_network(network)
    assert num_folded == 0
    for got, wanted in zip(tf.nest.flatten(folded(images_of(3, 5))), tf.nest.flatten(network(images_of(3, 5)))):
        np.testing.assert_allclose(got, wanted, rtol=1e-6)


def test_a_normalisation_that_is_thawed_trains_as_before():
    live = backbones.resnet10(3)
    images = images_of(3)
    folded, _ = folded_network(live)
    before = [np.array(weight) for weight in live.non_trainable_variables]
    expected = live(images, training=True)
    moved = [np.array(weight) for weight in live.non_trainable_variables]
    for weight, value in zip(live.non_trainable_variables, before):
        weight.assign(value)
    np.testing.assert_allclose(folded(images, training=True), expected, atol=1e-5)
    for weight, value in zip(live.non_trainable_variables, moved):
        np.testing.assert_allclose(weight, value, atol=1e-6)
    np.testing.assert_allclose(embeddings(folded, images), embeddings(live, images), atol=1e-6)


def test_weights_are_those_of_the_moment():
    network = with_statistics(backbones.resnet10(3, frozen_batch_norm=True))
    folded, _ = folded_network(network)
    traced = tf.function(lambda images: folded(images), autograph=False)
    images = images_of(3)
    before = traced(images)
    network.set_weights([1.1 * weight for weight in network.get_weights()])
    assert np.abs(before - network(images)).max() > 0.01
    np.testing.assert_allclose(traced(images), network(images), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("precision", ["mixed_float16", "mixed_bfloat16"])
def test_half_precision(precision):
    images = keras.Input((None, None, 3))
    policy = {"dtype": keras.mixed_precision.Policy(precision)}
    maps = keras.layers.Conv2D(4, 3, **policy)(images)
    norm = keras.layers.BatchNormalization(**policy)
    network = with_statistics(freeze_batch_norm(keras.Model(images, keras.layers.ReLU(**policy)(norm(maps)))))
    folded, num_folded = folded_network(network)
    inputs = tf.random.stateless_uniform([2, 6, 6, 3], [0, 1])
    found, expected = folded(inputs), network(inputs)
    assert num_folded == 1
    assert found.dtype == expected.dtype == precision.removeprefix("mixed_")
    np.testing.assert_allclose(tf.cast(found, tf.float32), tf.cast(expected, tf.float32), atol=0.02)


def test_a_network_without_a_graph_or_without_normalisation_stays_as_it_is():
    class Plain(keras.Model):
        def call(self, images, training=None):
            return 2.0 * tf.cast(images, tf.float32)

    function, num_folded = folded_network(Plain())
    assert num_folded == 0
    np.testing.assert_array_equal(function(tf.ones([1, 2, 2, 1])), 2 * np.ones([1, 2, 2, 1]))
    inputs = keras.Input((None, None, 3))
    x = rectifier(depthwise_convolution(convolution(inputs, 2, 3, "first"), 3, "second"), "third")
    network = keras.Model(inputs, x)
    assert folded_network(network)[1] == 0
    normalized = keras.Model(inputs, batch_normalization(rectifier(x, "fourth"), "fifth"))
    assert folded_network(normalized)[1] == 0
