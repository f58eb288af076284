import functools

import numpy as np
import pytest
import tensorflow as tf

from common import pooling
from common.errors import InvalidInput
from common.pooling.weighted_pooling import WeightedPooling
from tests.support.slopes import slope_along

BATCH, HEIGHT, WIDTH, CHANNELS = 2, 3, 4, 5
CONSTRUCTORS = {
    "cbam": functools.partial(pooling.CBAMPooling, 2),
    "cbam_1x1": functools.partial(pooling.CBAMPooling, 1, kernel_size=1),
    "crow": pooling.CrossDimensionalPooling,
    "crow_sigmoid": functools.partial(pooling.CrossDimensionalPooling, "sigmoid"),
    "delf": functools.partial(pooling.DeLFPooling, 6),
    "gemax": functools.partial(pooling.GeneralizedMaxPooling, 0.5),
    "gemean": functools.partial(pooling.GeneralizedMeanPooling, 2.5),
    "gsop": functools.partial(pooling.SecondOrderPooling, 6),
    "norm_attention": pooling.NormAttentionPooling,
    "norm_attention_1x1": functools.partial(pooling.NormAttentionPooling, 1),
    "netvlad": functools.partial(pooling.NetVLADPooling, 3),
    "otp": functools.partial(pooling.OptimalTransportPooling, 3, num_iterations=5),
    "solar": functools.partial(pooling.SecondOrderAttentionPooling, 2, output_initializer="glorot_uniform"),
    "weldon": functools.partial(pooling.WeldonPooling, 3, 2),
}
NEIGHBORHOODS = ("cbam", "norm_attention")  # see rows and columns
every_pooling = pytest.mark.parametrize("name", CONSTRUCTORS)
every_weighted_pooling = pytest.mark.parametrize(
    "name", [name for name, make in CONSTRUCTORS.items() if isinstance(make(), WeightedPooling)]
)


def random_features(seed=0, dtype=np.float64, batch=BATCH):
    return np.random.default_rng(seed).normal(size=(batch, HEIGHT, WIDTH, CHANNELS)).astype(dtype)


def built(name, dtype="float64", seed=2, shape=(None, HEIGHT, WIDTH, CHANNELS), **kwargs):
    """A layer whose weights depend on the seed alone."""
    layer = CONSTRUCTORS[name](dtype=dtype, **kwargs)
    layer.build(shape)
    rng = np.random.default_rng(seed)
    layer.set_weights([random_weight(weight.shape, rng) for weight in layer.get_weights()])
    return layer


def random_weight(shape, rng):
    """Matrices of both signs; vectors (biases, scales, variances) and the exponent positive."""
    if len(shape) < 2:
        return rng.uniform(0.5, 1.5, size=shape) + (len(shape) == 0)
    return rng.normal(size=shape) / np.prod(shape[:-1]) ** 0.5


def gradients(layer, features, training=False):
    features = tf.convert_to_tensor(features)
    with tf.GradientTape() as tape:
        tape.watch(features)
        pooled = layer(features, training=training)
        total = tf.reduce_sum(pooled * tf.cast(tf.range(1, pooled.shape[-1] + 1), pooled.dtype))
    return pooled, tape.gradient(total, [features, *layer.trainable_variables])


@every_pooling
@pytest.mark.parametrize("value", [0.0, 1.0, -2.0, 1e4])
def test_constant_features_have_finite_values_and_gradients(name, value):
    layer = built(name, "float32")
    pooled, found = gradients(layer, np.full((BATCH, HEIGHT, WIDTH, CHANNELS), value, np.float32))
    assert np.all(np.isfinite(pooled))
    for gradient in found:
        assert gradient is not None
        assert np.all(np.isfinite(gradient))


@every_pooling
def test_single_active_position_has_finite_gradients(name):
    features = np.zeros((BATCH, HEIGHT, WIDTH, CHANNELS), np.float32)
    features[0, 1, 2, 3] = 1e-20  # its square vanishes
    features[1, 0, 0] = 3.0
    pooled, found = gradients(built(name, "float32"), features)
    assert all(np.all(np.isfinite(tensor)) for tensor in (pooled, *found))


@every_pooling
def test_gradients_equal_central_differences(name):
    layer, features = built(name), tf.Variable(np.abs(random_features()) + 0.1)
    _, found = gradients(layer, features)
    rng = np.random.default_rng(3)

    def total():
        pooled = layer(tf.convert_to_tensor(features), training=False).numpy()
        return np.sum(pooled * np.arange(1, pooled.shape[-1] + 1))

    for variable, gradient in zip([features, *layer.trainable_variables], found):
        direction = rng.normal(size=variable.shape)
        expected = slope_along(direction, variable, total)
        np.testing.assert_allclose(np.sum(gradient * direction), expected, rtol=1e-5, atol=1e-7)


@pytest.mark.parametrize("name", [name for name in CONSTRUCTORS if name not in NEIGHBORHOODS])
def test_tokens_equal_maps(name):
    features = random_features()
    tokens = features.reshape(BATCH, HEIGHT * WIDTH, CHANNELS)
    of_tokens = built(name, shape=(None, HEIGHT * WIDTH, CHANNELS))(tokens)
    np.testing.assert_allclose(of_tokens, built(name)(features), rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("name", NEIGHBORHOODS)
def test_tokens_have_no_neighbours(name):
    with pytest.raises(InvalidInput, match=r"received \(None, 12, 5\), expected feature maps .* use \w+=1"):
        built(name, shape=(None, HEIGHT * WIDTH, CHANNELS))


@pytest.mark.parametrize("name", [name for name in CONSTRUCTORS if name != "gsop"])
def test_masked_rows_of_a_map_count_as_cut_off(name):
    layer, features = built(name), random_features()
    features[1] -= 5  # a maximum below 0, which is what masked positions have
    mask = np.ones((BATCH, HEIGHT, WIDTH), bool)
    mask[:, 2:] = False
    padded = np.where(mask[..., None], features, 1e3)
    cut = layer(features[:, :2], training=False)
    np.testing.assert_allclose(layer(padded, mask=tf.constant(mask), training=False), cut, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("name", [name for name in CONSTRUCTORS if name != "gsop"])
def test_image_without_any_position_is_finite(name):
    layer = built(name, "float32")
    mask = np.stack([np.zeros((HEIGHT, WIDTH), bool), np.ones((HEIGHT, WIDTH), bool)])
    features = tf.constant(random_features(dtype=np.float32))
    with tf.GradientTape() as tape:
        tape.watch(features)
        pooled = layer(features, mask=tf.constant(mask))
        total = tf.reduce_sum(pooled)
    assert np.all(pooled[0] == 0.0)
    assert np.all(np.isfinite(tape.gradient(total, features)))


@every_weighted_pooling
def test_spatial_weights_sum_to_one(name):
    layer, features = built(name), random_features()
    weights = layer.spatial_weights(features)
    assert weights.shape == (BATCH, HEIGHT * WIDTH)
    assert np.all(weights >= 0.0)
    np.testing.assert_allclose(np.sum(weights, axis=1), 1.0, rtol=1e-12)
    zeros = layer.spatial_weights(np.zeros_like(features))
    np.testing.assert_allclose(np.sum(zeros, axis=1), 1.0, rtol=1e-12)
    mask = np.arange(HEIGHT * WIDTH).reshape(1, HEIGHT, WIDTH).repeat(BATCH, 0) % 3 > 0
    masked = layer.spatial_weights(features, mask=tf.constant(mask))
    np.testing.assert_allclose(np.sum(masked, axis=1), 1.0, rtol=1e-12)
    assert np.all(masked.numpy()[~mask.reshape(BATCH, -1)] == 0.0)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        *((lambda side=side: pooling.CBAMPooling(kernel_size=side), "kernel_size") for side in (0, 2)),
        (lambda: pooling.NormAttentionPooling(2), "window: received 2, expected an odd integer"),
        (lambda: pooling.SecondOrderAttentionPooling(power=-3.0), "power"),
        (lambda: pooling.SecondOrderPooling().build((None, None, None, 8)), r"expected a known height and width"),
        (lambda: pooling.SecondOrderPooling(2)(tf.ones([1, 3, 2]), mask=tf.constant([[True, True, False]])), "mask"),
        (lambda: pooling.WeldonPooling(2, 5).build((None, 2, 2, 7)), r"expected at least 5 positions"),
    ],
)
def test_what_a_pooling_is_not_made_of_is_named(make, message):
    with pytest.raises(InvalidInput, match=message):
        make()
