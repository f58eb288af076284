"""One table of all poolings, and what holds for each of them. A new pooling adds a line to the table."""

import functools
import inspect

import numpy as np
import pytest
import tensorflow as tf

import gsp_dml
from common import pooling
from common.errors import InvalidInput
from common.training.devices import precision_policy

keras = tf.keras

BATCH, HEIGHT, WIDTH, CHANNELS = 6, 4, 3, 8
FEW = 5  # iterations of the solver: a graph has each of them


def combined_head(other, data_format=None, **keywords):
    pooling_of_sums = gsp_dml.GeneralizedSumPooling(
        4, memory_size=2 * BATCH, num_iterations=FEW, data_format=data_format
    )
    return gsp_dml.CombinedSumHead(pooling_of_sums, 5, aggregation=other, **keywords)


# Name -> constructor. The name starts with the class.
POOLINGS = {
    "GlobalAveragePooling": pooling.GlobalAveragePooling,
    "GlobalMaxPooling": pooling.GlobalMaxPooling,
    "GlobalAverageMaxPooling": pooling.GlobalAverageMaxPooling,
    "CBAMPooling": lambda **kw: pooling.CBAMPooling(2, **kw),
    "ClassTokenPooling": pooling.ClassTokenPooling,
    "CrossDimensionalPooling": pooling.CrossDimensionalPooling,
    "DeLFPooling": lambda **kw: pooling.DeLFPooling(6, **kw),
    "GeneralizedMaxPooling": pooling.GeneralizedMaxPooling,
    "GeneralizedMeanPooling": pooling.GeneralizedMeanPooling,
    "NetVLADPooling": lambda **kw: pooling.NetVLADPooling(3, **kw),
    "NormAttentionPooling": pooling.NormAttentionPooling,
    "OptimalTransportPooling": lambda **kw: pooling.OptimalTransportPooling(3, **kw),
    "SecondOrderAttentionPooling": lambda **kw: pooling.SecondOrderAttentionPooling(2, **kw),
    "SecondOrderPooling": lambda **kw: pooling.SecondOrderPooling(6, **kw),
    "WeldonPooling": lambda **kw: pooling.WeldonPooling(3, 2, **kw),
    "CombinedSumHead": lambda **kw: combined_head("max", **kw),
    "CombinedSumHead of generalised means": lambda **kw: combined_head("generalized_mean", **kw),
    "GeneralizedSumPooling": lambda **kw: gsp_dml.GeneralizedSumPooling(4, memory_size=2 * BATCH, **kw),
    "GeneralizedSumPooling with all outputs": lambda **kw: gsp_dml.GeneralizedSumPooling(
        4, memory_size=2 * BATCH, num_iterations=FEW, return_attributes=True, return_attention=True, **kw
    ),
    "GeneralizedSumPooling of random prototypes": lambda **kw: gsp_dml.GeneralizedSumPooling(
        4, num_iterations=FEW, prototype_initializer="random", trainable_transport_ratio=True, **kw
    ),
    "GeneralizedSumPooling by fixed point": lambda **kw: gsp_dml.GeneralizedSumPooling(
        4, solver="fixed_point", num_iterations=10, prototype_initializer="random", **kw
    ),
}


# The graphs that must fill a memory or the like.
FITTED_IN_A_GRAPH = ("CombinedSumHead", "GeneralizedSumPooling with all outputs", "SecondOrderPooling")


@pytest.fixture(params=list(POOLINGS))
def create(request):
    return POOLINGS[request.param]


def random_maps(seed=0, batch=BATCH):
    return np.random.default_rng(seed).normal(size=(batch, HEIGHT, WIDTH, CHANNELS)).astype(np.float32)


def as_list(outputs):
    return [outputs[name] for name in sorted(outputs)] if isinstance(outputs, dict) else [outputs]


def main_output(outputs):
    return next(iter(outputs.values())) if isinstance(outputs, dict) else outputs


def assert_same(outputs, expected, tolerance=2e-5):
    outputs, expected = as_list(outputs), as_list(expected)
    assert len(outputs) == len(expected)
    for output, value in zip(outputs, expected):
        np.testing.assert_allclose(output, value, rtol=tolerance, atol=tolerance)


def trained_layer(create, **keywords):
    """A layer past its start: what collects features has prototypes, what has statistics has seen some."""
    layer = create(**keywords)
    layer(random_maps(), training=True)
    for seed in (1, 2) if layer.non_trainable_weights else ():
        layer(random_maps(seed), training=True)
    return layer


def small_model(create):
    inputs = keras.Input((HEIGHT, WIDTH, 3))
    features = keras.layers.Conv2D(CHANNELS, 3, padding="same", activation="relu")(inputs)
    outputs = main_output(create(name="pooling")(features))
    return keras.Model(inputs, keras.layers.Dense(3)(outputs))


def random_images(batch=4 * BATCH):
    rng = np.random.default_rng(0)
    return rng.normal(size=(batch, HEIGHT, WIDTH, 3)).astype(np.float32), rng.integers(0, 3, size=batch)


def fitted_model(create, **keywords):
    model = small_model(create)
    model.compile(keras.optimizers.SGD(0.01), keras.losses.SparseCategoricalCrossentropy(from_logits=True), **keywords)
    history = model.fit(*random_images(), batch_size=BATCH, epochs=1, verbose=0)
    assert np.isfinite(history.history["loss"]).all()
    return model


def test_the_table_has_every_pooling():
    final = set()
    for package in (pooling, gsp_dml):
        for name in package.__all__:
            symbol = getattr(package, name)
            if (
                inspect.isclass(symbol)
                and issubclass(symbol, (pooling.FeaturePooling, gsp_dml.CombinedSumHead))
                and not inspect.isabstract(symbol)
            ):
                final.add(name)
    assert final == {name.split(" ")[0] for name in POOLINGS}


def test_the_output_has_the_declared_shape_and_does_not_depend_on_training(create):
    layer = create()
    shapes = layer.compute_output_shape((None, HEIGHT, WIDTH, CHANNELS))
    for training in (False, True, None, True, True, False):
        outputs = layer(random_maps(), training=training)
        assert isinstance(outputs, dict) == isinstance(shapes, dict)
        for name in shapes if isinstance(shapes, dict) else [None]:
            shape, output = (shapes, outputs) if name is None else (shapes[name], outputs[name])
            assert tuple(shape)[1:] == output.shape[1:]
            assert output.shape[0] == BATCH
            assert np.isfinite(output).all()


@pytest.mark.one_in(7)
def test_a_function_of_maps_of_unknown_size_equals_eager(create):
    layer = trained_layer(create)
    sides = (HEIGHT, WIDTH) if isinstance(layer, pooling.SecondOrderPooling) else (None, None)
    signature = [tf.TensorSpec([None, *sides, CHANNELS])]
    compiled = tf.function(lambda maps: layer(maps), input_signature=signature, autograph=False)
    for batch in (BATCH, 2):
        assert_same(compiled(random_maps(5, batch)), layer(random_maps(5, batch)))


@pytest.mark.slow
@pytest.mark.one_in(7)
def test_xla_equals_eager(create):
    layer = trained_layer(create)
    assert_same(tf.function(layer, jit_compile=True)(random_maps(5)), layer(random_maps(5)), 1e-4)


@pytest.mark.parametrize(
    ("create", "weight", "name"),
    [
        (pooling.NetVLADPooling, "centers", "center"),
        (pooling.OptimalTransportPooling, "prototypes", "prototype"),
        (functools.partial(gsp_dml.GeneralizedSumPooling, prototype_initializer="random"), "prototypes", "prototype"),
    ],
)
def test_what_features_are_compared_with_is_regularised_and_constrained(create, weight, name):
    layer = create(3, **{f"{name}_regularizer": "l2", f"{name}_constraint": keras.constraints.UnitNorm(1)})
    restored = type(layer).from_config(layer.get_config())
    restored.build((None, HEIGHT, WIDTH, CHANNELS))
    variable = getattr(restored, weight)
    np.testing.assert_allclose(restored.losses, [0.01 * np.sum(np.square(variable))], rtol=1e-6)
    np.testing.assert_allclose(np.linalg.norm(variable.constraint(variable), axis=1), 1, rtol=1e-5)


def test_both_layouts_agree(create):
    layer, first = trained_layer(create), create(data_format="channels_first")
    first.build((None, CHANNELS, HEIGHT, WIDTH))
    first.set_weights(layer.get_weights())
    assert_same(main_output(first(random_maps(5).transpose(0, 3, 1, 2))), main_output(layer(random_maps(5))))


def test_a_frozen_layer_changes_nothing_in_training(create):
    layer = create(trainable=False)
    layer(random_maps())
    before = layer.get_weights()
    for seed in range(3):
        layer(random_maps(seed), training=True)
    for weight, expected in zip(layer.get_weights(), before):
        np.testing.assert_array_equal(weight, expected)


def test_inputs_of_another_shape_are_named(create):
    layer = trained_layer(create)
    with pytest.raises(InvalidInput, match="a ragged tensor.*to_tensor"):
        layer.call(tf.RaggedTensor.from_tensor(tf.zeros([2, 3, CHANNELS])))
    if any(len(weight.shape) for weight in layer.weights):
        with pytest.raises(ValueError, match=f"expected axis -1 of input shape to have value {CHANNELS}"):
            layer(random_maps()[..., :-1])


def test_a_mask_of_another_shape_is_refused(create):
    layer = trained_layer(create)
    for shape in [(BATCH, HEIGHT, WIDTH - 1), (BATCH, WIDTH, HEIGHT), (BATCH - 1, HEIGHT * WIDTH)]:
        with pytest.raises(InvalidInput, match="mask"):
            layer(random_maps(), mask=np.ones(shape, bool))


def test_training_in_half_precision_is_finite(create):
    """A step under mixed_float16, with what the policy asks for: half-precision features, float32 weights."""
    with precision_policy("mixed_float16"):
        layer = create()
        maps = tf.constant(random_maps(), tf.float16)
        for _ in range(3):
            with tf.GradientTape() as tape:
                tape.watch(maps)
                outputs = as_list(layer(maps, training=True))
                value = sum(tf.reduce_mean(tf.cast(output, tf.float32)) for output in outputs)
            gradients = tape.gradient(value, [maps, *layer.trainable_variables])
    assert all(np.isfinite(output).all() for output in outputs)
    assert all(np.isfinite(gradient).all() for gradient in gradients if gradient is not None)
    assert {tf.as_dtype(variable.dtype) for variable in layer.trainable_variables} <= {tf.float32}


def test_the_configuration_restores_the_layer(create):
    layer = trained_layer(create)
    again = type(layer).from_config(layer.get_config())
    assert again.get_config() == layer.get_config()
    again.build((None, HEIGHT, WIDTH, CHANNELS))
    again.set_weights(layer.get_weights())
    assert_same(again(random_maps(5)), layer(random_maps(5)), 0)


@pytest.mark.one_in(4)
@pytest.mark.parametrize("name", POOLINGS)
def test_a_keras_file_restores_the_model_and_its_memory(name, tmp_path):
    model = fitted_model(POOLINGS[name], run_eagerly=name not in FITTED_IN_A_GRAPH)
    model.save(tmp_path / "model.keras")
    restored = keras.models.load_model(tmp_path / "model.keras")
    images = random_images()[0]
    assert_same(restored(images), model(images), 1e-6)
    for weight, expected in zip(restored.get_layer("pooling").weights, model.get_layer("pooling").weights):
        np.testing.assert_array_equal(weight, expected)
