import warnings

import numpy as np
import pytest
import tensorflow as tf

from common.errors import InvalidInput
from common.losses import TripletLoss
from common.pooling import GlobalAveragePooling
from common.training import MetricModel
from gsp_dml.generalized_sum_pooling import GeneralizedSumPooling
from tests.gsp_dml.transport_oracle import bisected_transport, distances

keras = tf.keras
FEW = {"num_iterations": 5}  # of the solver: a graph has each of them


def random_maps(batch=6, seed=0, dtype=np.float32):
    return np.random.default_rng(seed).normal(size=(batch, 3, 4, 8)).astype(dtype)


def prototypes_of(num_prototypes=5, seed=1):
    return np.random.default_rng(seed).normal(size=(num_prototypes, 8)) * 0.4


def given(**keywords):
    """A layer with given prototypes, in float64."""
    keywords = {"num_prototypes": 5, "prototype_initializer": prototypes_of(), "dtype": "float64", **keywords}
    return GeneralizedSumPooling(**keywords)


def oracle(maps, ratio, smoothing):
    positions = maps.reshape(len(maps), -1, maps.shape[-1])
    costs = distances(positions, np.broadcast_to(prototypes_of(), (len(maps), 5, 8)))
    weights, attributes, plan = bisected_transport(costs, ratio, smoothing)
    return np.einsum("bn,bnc->bc", weights, positions), attributes, plan


@pytest.mark.parametrize(("ratio", "smoothing"), [(0.3, 5.0), (0.6, 0.5), (0.2, 20.0)])
def test_it_averages_features_that_are_not_normalised(ratio, smoothing):
    maps = 3 * random_maps(dtype=np.float64)
    layer = given(transport_ratio=ratio, smoothing=smoothing, return_attributes=True, return_attention=True)
    outputs = layer(maps)
    for name, expected in zip(("pooled", "attributes", "attention"), oracle(maps, ratio, smoothing)):
        np.testing.assert_allclose(tf.reshape(outputs[name], expected.shape), expected, rtol=1e-7, atol=1e-9)
    assert outputs["attention"].shape == (6, 3, 4, 5)
    np.testing.assert_allclose(given(transport_ratio=ratio, smoothing=smoothing)(maps), outputs["pooled"], rtol=1e-12)
    np.testing.assert_allclose(
        layer.spatial_weights(maps), tf.reshape(tf.reduce_sum(outputs["attention"], -1), [6, 12]) / ratio, rtol=1e-9
    )


def test_channels_first_and_tokens_are_the_same_positions():
    maps = random_maps(dtype=np.float64)
    outputs = given(return_attention=True)(maps)
    first = given(return_attention=True, data_format="channels_first")(maps.transpose(0, 3, 1, 2))
    tokens = given(return_attention=True)(maps.reshape(6, 12, 8))
    np.testing.assert_allclose(first["pooled"], outputs["pooled"], rtol=1e-12)
    np.testing.assert_allclose(tokens["pooled"], outputs["pooled"], rtol=1e-12)
    np.testing.assert_allclose(first["attention"], tf.transpose(outputs["attention"], [0, 3, 1, 2]), rtol=1e-12)
    np.testing.assert_allclose(tokens["attention"], tf.reshape(outputs["attention"], [6, 12, 5]), rtol=1e-12)


@pytest.mark.parametrize("ratio", [0.3, 1.0])
def test_padding_does_not_count(ratio):
    tokens, lengths = random_maps(dtype=np.float64).reshape(6, 12, 8), [12, 7, 3, 1, 5, 9]
    mask = np.arange(12) < np.array(lengths)[:, None]
    layer = given(transport_ratio=ratio, return_attributes=True)
    outputs = layer(np.where(mask[..., None], tokens, np.inf), mask=mask)
    for index, length in enumerate(lengths):
        alone = layer(tokens[index : index + 1, :length])
        for name in ("pooled", "attributes"):
            np.testing.assert_allclose(outputs[name][index], alone[name][0], rtol=1e-9)


@pytest.mark.parametrize("initializer", ["feature_memory", "random"])
def test_the_whole_mass_is_the_global_average_of_keras(initializer):
    maps = random_maps()
    layer = GeneralizedSumPooling(5, 1.0, prototype_initializer=initializer, memory_size=6)
    for training in (False, True, True):
        np.testing.assert_allclose(
            layer(maps, training=training), keras.layers.GlobalAveragePooling2D()(maps), atol=1e-6
        )


def test_the_trainable_ratio_starts_where_it_is_told():
    layer = given(transport_ratio=0.4, trainable_transport_ratio=True)
    np.testing.assert_allclose(layer(random_maps()), given(transport_ratio=0.4)(random_maps()), atol=1e-7)


def memory_layer(**keywords):
    return GeneralizedSumPooling(3, memory_size=10, return_attributes=True, return_attention=True, **keywords)


def test_it_is_average_pooling_until_the_memory_is_full_and_transport_after_it():
    layer, maps = memory_layer(), [random_maps(seed=seed) for seed in range(4)]
    average = GlobalAveragePooling()
    for step in range(2):  # 6 images, then 10 of 12: the second call completes the memory, and still averages
        outputs = layer(maps[step], training=True)
        np.testing.assert_allclose(outputs["pooled"], average(maps[step]), atol=1e-6)
        assert not outputs["attributes"].numpy().any()
        assert not outputs["attention"].numpy().any()
    outputs = layer(maps[2])
    assert np.abs(outputs["pooled"] - average(maps[2])).max() > 1e-3
    np.testing.assert_allclose(tf.reduce_sum(outputs["attributes"], axis=1), 1.0, atol=1e-6)
    np.testing.assert_allclose(tf.reduce_sum(outputs["attention"], axis=[1, 2, 3]), 0.3, atol=1e-6)


def test_prototypes_are_clipped_averages_of_images():
    layer, maps = memory_layer(), [5 * random_maps(seed=seed) for seed in range(2)]
    for batch in maps:
        layer(batch, training=True)
    averages = np.concatenate(maps).mean(axis=(1, 2))[:10]
    clipped = averages / np.maximum(1, np.linalg.norm(averages, axis=1, keepdims=True))
    nearest = np.abs(clipped[:, None] - np.asarray(layer.prototypes)).max(axis=2).min(axis=0)
    np.testing.assert_allclose(nearest, 0, atol=1e-6)


def test_prototypes_are_local_features_when_those_are_remembered():
    maps, layer = 0.1 * random_maps(8), GeneralizedSumPooling(2, memory_size=8, memory_features="local_features")
    layer(maps, training=True)
    distances = np.abs(maps.reshape(-1, 1, 8) - np.asarray(layer.prototypes)).max(-1)
    np.testing.assert_allclose(distances.min(0), 0, atol=1e-7)


def test_the_memory_waits_for_its_delay():
    layer, maps = memory_layer(memory_delay=7), 0.2 * random_maps(12)
    layer(maps[:6], training=True)
    assert int(tf.convert_to_tensor(layer.memory_count)) == -1
    layer(maps[6:], training=True)
    np.testing.assert_allclose(np.asarray(layer.memory)[:5], maps[7:].mean(axis=(1, 2)), rtol=1e-4, atol=1e-6)


def test_inference_collects_nothing_and_prototypes_are_chosen_once():
    layer, maps = memory_layer(), 0.5 * random_maps(10)
    layer(maps)
    layer(maps, training=False)
    assert int(tf.convert_to_tensor(layer.memory_count)) == 0
    layer(maps, training=True)
    chosen = np.array(layer.prototypes)
    layer(2 * maps, training=True)
    np.testing.assert_array_equal(layer.prototypes, chosen)
    np.testing.assert_allclose(layer.memory, maps.mean(axis=(1, 2)), rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("as_graph", [False, True])
def test_a_recomputed_pass_collects_nothing_and_has_the_same_gradient(as_graph):
    batches, found = [tf.constant(random_maps(4, seed)) for seed in range(4)], []
    for repeat in (lambda f: f, tf.recompute_grad):
        layer = GeneralizedSumPooling(3, memory_size=8, **FEW)
        layer.build((None, 3, 4, 8))
        pool = repeat(lambda maps, layer=layer: layer(maps, training=True))

        def step(maps, pool=pool):
            with tf.GradientTape() as tape:
                tape.watch(maps)
                value = tf.reduce_sum(pool(maps) ** 2)
            return tape.gradient(value, maps)

        step = tf.function(step, autograph=False) if as_graph else step
        found.append([np.array(part) for maps in batches for part in (step(maps), layer.memory)])
    for once, repeated in zip(*found):
        np.testing.assert_allclose(repeated, once, rtol=1e-5, atol=1e-6)


def small_classifier(**settings):
    inputs = keras.Input((3, 4, 8))
    model = keras.Model(inputs, keras.layers.Dense(1)(GeneralizedSumPooling(2, memory_size=10, **FEW)(inputs)))
    model.compile("sgd", "mse", **settings)
    return model


def fitted_on(num_images, **keywords):
    model = small_classifier(run_eagerly=True)
    images, targets = random_maps(num_images), np.zeros(num_images)
    model.fit(images, targets, batch_size=4, verbose=0, validation_data=(images, targets), **keywords)
    return model


@pytest.mark.parametrize("use", ["predict", "save"])
def test_what_is_still_average_pooling_says_so_once(use, tmp_path):
    model = fitted_on(8)
    calls = {
        "predict": lambda: model.predict(random_maps(), verbose=0),
        "save": lambda: model.save(tmp_path / "m.keras"),
    }
    with pytest.warns(UserWarning, match="still is average pooling: it has seen 8 of the 10 training images"):
        calls[use]()
    with warnings.catch_warnings():
        warnings.filterwarnings("error", message=".*average pooling")
        calls[use]()


def test_a_metric_model_says_so_at_the_end_of_fit():
    model = MetricModel(
        keras.Sequential([keras.Input((3, 4, 8)), GeneralizedSumPooling(2, memory_size=10)]), TripletLoss()
    )
    model.compile("sgd", run_eagerly=True)
    with pytest.warns(UserWarning, match="has seen 8 of the 10 training images"):
        model.fit(random_maps(8), np.arange(8) % 2, batch_size=4, verbose=0)


def test_a_loop_that_forgets_training_is_told():
    model = small_classifier()
    with tf.GradientTape() as tape:
        value = tf.reduce_sum(model(random_maps()))
    with pytest.warns(UserWarning, match=r"seen 0 of the 10 training images.*Only calls with training=True count"):
        tape.gradient(value, model.trainable_variables)


def test_nothing_is_said_while_prototypes_begin_as_intended(tmp_path):
    with warnings.catch_warnings():
        warnings.filterwarnings("error", message=".*average pooling")
        checkpoint = keras.callbacks.ModelCheckpoint(str(tmp_path / "{epoch}.keras"))
        evaluate = keras.callbacks.LambdaCallback(on_epoch_end=lambda *_: model.predict(random_maps(), verbose=0))
        model = small_classifier()
        images, targets = random_maps(8), np.zeros(8)
        model.fit(
            images, targets, epochs=2, verbose=0, validation_data=(images, targets), callbacks=[checkpoint, evaluate]
        )
        model.predict(images, verbose=0)
        model.save(tmp_path / "model.keras")
    assert bool(model.layers[1].has_prototypes())


def test_a_configuration_of_before_still_makes_the_layer():
    config = GeneralizedSumPooling(2).get_config()
    new = {"prototype_regularizer": None, "prototype_constraint": None}
    old = {name: value for name, value in config.items() if name not in new}
    assert GeneralizedSumPooling.from_config(old).get_config() == {**old, **new}


@pytest.mark.skipif(tf.__version__ < "2.17", reason="TensorFlow 2.15 and 2.16 fail to map a sort that sorts nothing")
# At a smoothing of 5000, some images have costs that are far apart.
@pytest.mark.slow
@pytest.mark.one_in(4)
@pytest.mark.parametrize(("close", "smoothing"), [(1, 5000.0), (6, 5000.0), (1, 5.0), (6, 5.0)])
def test_a_vectorised_map_over_images_is_the_batch(smoothing, close):
    layer, maps = given(transport_ratio=0.4, smoothing=smoothing, **FEW), random_maps(dtype=np.float64)
    maps[:close, 0, 0] = prototypes_of()[0]  # these take the exact way to the costs, the others do not
    maps[4:] = maps[4:, :1, :1]

    def value_and_gradient(batch):
        with tf.GradientTape() as tape:
            tape.watch(batch)
            pooled = layer(batch)
        return pooled, tape.gradient(pooled, batch)

    mapped = tf.vectorized_map(lambda image: [x[0] for x in value_and_gradient(image[None])], tf.constant(maps))
    for found, expected in zip(mapped, value_and_gradient(tf.constant(maps))):
        np.testing.assert_allclose(found, expected, rtol=1e-7, atol=1e-9)


def test_while_the_memory_fills_prototypes_have_no_gradient():
    layer, maps = memory_layer(), random_maps()
    with tf.GradientTape() as tape:
        outputs = layer(maps, training=True)
        value = tf.reduce_sum(outputs["pooled"]) + tf.reduce_sum(outputs["attributes"] ** 2)
    assert not np.asarray(tape.gradient(value, layer.prototypes)).any()


def test_a_memory_that_fills_inside_a_function_equals_an_eager_one():
    batches = [random_maps(size, seed) for seed, size in enumerate((4, 3, 5, 4))]
    eager, compiled = memory_layer(**FEW), memory_layer(**FEW)
    compiled.build((None, 3, 4, 8))
    step = tf.function(lambda x: compiled(x, training=True), input_signature=[tf.TensorSpec([None, 3, 4, 8])])
    for batch in batches:
        expected, outputs = eager(batch, training=True), step(batch)
        for name, value in expected.items():
            np.testing.assert_allclose(outputs[name], value, atol=1e-5)
    np.testing.assert_allclose(compiled.prototypes, eager.prototypes, atol=1e-6)


@pytest.mark.slow
def test_a_compiled_layer_trains_and_restores_like_a_plain_one(tmp_path):
    images, targets = random_maps(30), np.arange(30) % 2
    models = []
    for jit_compile in (False, True):
        inputs = keras.Input((3, 4, 8))
        pooled = GeneralizedSumPooling(3, memory_size=10, jit_compile=jit_compile, **FEW)(inputs)
        model = keras.Model(inputs, keras.layers.Dense(1, kernel_initializer="ones")(pooled))
        model.compile(keras.optimizers.SGD(0.1), "mse", run_eagerly=True)
        model.fit(images, targets, batch_size=10, epochs=2, shuffle=False, verbose=0)
        models.append(model)
    np.testing.assert_allclose(models[1].get_weights()[0], models[0].get_weights()[0], atol=1e-5)
    models[1].save(tmp_path / "model.keras")
    restored = keras.models.load_model(tmp_path / "model.keras")
    assert restored.layers[1].jit_compile
    np.testing.assert_allclose(restored.predict(images, verbose=0), models[0].predict(images, verbose=0), atol=1e-5)


def test_masked_images_are_remembered_without_their_padding():
    layer = GeneralizedSumPooling(2, memory_size=4)
    tokens = np.random.default_rng(0).normal(size=(4, 6, 8)).astype(np.float32) * 0.2
    mask = np.arange(6) < np.array([[6], [2], [4], [1]])
    layer(tokens, mask=mask, training=True)
    expected = [token[valid].mean(axis=0) for token, valid in zip(tokens, mask)]
    np.testing.assert_allclose(layer.memory, expected, rtol=1e-4, atol=1e-6)


def test_huge_identical_and_prototype_features_stay_finite():
    layer = GeneralizedSumPooling(5, prototype_initializer=prototypes_of(), return_attributes=True)
    cases = np.stack([np.full((12, 8), 1e30), np.zeros((12, 8)), np.resize(prototypes_of(), (12, 8))])
    features = tf.constant(cases, tf.float32)
    with tf.GradientTape() as tape:
        tape.watch(features)
        outputs = layer(features)
        value = tf.reduce_sum(outputs["attributes"] ** 2) + tf.reduce_sum(outputs["pooled"][1:] ** 2)
    for gradient in tape.gradient(value, [features, *layer.trainable_variables]):
        assert np.isfinite(gradient).all()
    np.testing.assert_allclose(outputs["pooled"][0], 1e30, rtol=1e-5)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"num_iterations": 2}, "num_iterations"),
        ({"prototype_initializer": "kmeans"}, "feature_memory"),
        ({"prototype_initializer": np.zeros((4, 8))}, r"array \[5, channels\]"),
        ({"memory_size": 4}, "at least num_prototypes = 5"),
        ({"transport_ratio": 1.0, "trainable_transport_ratio": True}, "below 1"),
    ],
)
def test_bad_settings_are_named_before_a_graph_is_built(arguments, message):
    with pytest.raises(InvalidInput, match=message):
        GeneralizedSumPooling(**{"num_prototypes": 5, **arguments})
