"""One table of all losses in Keras' own `compile` and `fit`: what holds for each of them on both stacks.

Losses without weights go into `compile(loss=...)` of a plain model, the others into a `MetricModel`. Each class is in
the table once, with the settings that it has first in the other table of losses.
"""

import functools
import inspect
import warnings

import numpy as np
import pytest
import tensorflow as tf

from ccp_dml import ChanceConstrainedLoss, ChanceConstrainedModel
from common import losses
from common.errors import InvalidInput
from common.references import ProxyBank
from common.retrieval import evaluate_retrieval
from common.training import FusedAdam, InBatchPrecision, MetricModel
from common.training.devices import precision_policy
from gsp_dml import ZeroShotPredictionLoss
from tests.conformance.loss_table import BATCH, DIM, LOSSES, NUM_CLASSES

keras = tf.keras
INPUTS, ATTRIBUTES, LEARNING_RATE = 3, 6, 0.01
ROWS = {name: make for name, make in LOSSES.items() if " " not in name}


def network(outputs=DIM):
    inputs = keras.Input((INPUTS,))
    embeddings = keras.layers.Dense(outputs)(inputs)
    return keras.Model(inputs, embeddings)


def network_with_attributes():
    inputs = keras.Input((INPUTS,))
    layers = {"embeddings": keras.layers.Dense(DIM), "attributes": keras.layers.Dense(ATTRIBUTES, "softmax")}
    return keras.Model(inputs, {name: layer(inputs) for name, layer in layers.items()})


def zero_shot_model():
    loss = ZeroShotPredictionLoss(NUM_CLASSES, DIM)
    return MetricModel(
        network_with_attributes(), losses.MultiSimilarityLoss(), attribute_loss=loss, attribute_weight=0.1
    )


def chance_constrained_model():
    loss = ChanceConstrainedLoss(losses.ContrastiveLoss(), ProxyBank(NUM_CLASSES, 2, DIM), in_batch_weight=0.1)
    return ChanceConstrainedModel(network(), loss, rate=0.0, proxy_multiplier=0.1)


MODELS = {
    **{name: lambda make=make: MetricModel(network(), make(), proxy_multiplier=5.0) for name, make in ROWS.items()},
    "ZeroShotPredictionLoss": zero_shot_model,
    "ChanceConstrainedLoss": chance_constrained_model,
}
WITHOUT_WEIGHTS = [name for name, make in ROWS.items() if not make().weights]
WITH_WEIGHTS = [name for name in ROWS if name not in WITHOUT_WEIGHTS]
IN_METRIC_MODEL = [name for name in MODELS if name not in WITHOUT_WEIGHTS]


def model_of(name):
    """The model of a row, with the same weights each time."""
    model, rng = MODELS[name](), np.random.default_rng(1)
    for variable in model.trainable_variables:
        if len(variable.shape) == 2:
            variable.assign(rng.normal(size=variable.shape) / 2)
    return model


def batches():
    """Two batches of inputs and class ids in which every class has a pair."""
    rng = np.random.default_rng(0)
    labels = np.tile(np.arange(NUM_CLASSES), 2 * BATCH // NUM_CLASSES)
    return rng.normal(size=(2 * BATCH, INPUTS)).astype(np.float32), labels


def train(model, epochs=1):
    """Two steps an epoch; returns the weights after them."""
    inputs, labels = batches()
    model.fit(inputs, labels, batch_size=BATCH, epochs=epochs, shuffle=False, verbose=0)
    return weights_of(model)


def weights_of(model):
    """Those of the model, without the sums of its metrics."""
    parts = [model.network, model.metric_loss] if isinstance(model, MetricModel) else [model]
    return [np.array(weight) for part in parts for weight in part.weights]


def saved_and_loaded(model, folder):
    model.save(folder / "model.keras")
    return keras.models.load_model(folder / "model.keras")


def assert_trains_on_alike(model, folder):
    """A loaded model and the one that was saved take the same further steps, bit for bit."""
    before = train(model)
    loaded = saved_and_loaded(model, folder)
    states = [optimizer_state(each) for each in (model, loaded)]
    for found, expected in zip(states[1], states[0], strict=True):
        np.testing.assert_array_equal(found, expected)
    after = train(model)
    for found, expected in zip(train(loaded), after, strict=True):
        np.testing.assert_array_equal(found, expected)
    assert any(np.any(one != other) for one, other in zip(before, after)), "it is trained"


def optimizer_state(model):
    optimizers = [model.optimizer, getattr(model, "proxy_optimizer", None)]
    return [np.array(variable) for optimizer in optimizers if optimizer for variable in optimizer.variables]


def sgd(policy):
    """Gradient descent, in half precision from a scale at which no gradient overflows."""
    optimizer = keras.optimizers.SGD(LEARNING_RATE)
    is_half = policy == "mixed_float16"
    return keras.mixed_precision.LossScaleOptimizer(optimizer, initial_scale=64.0) if is_half else optimizer


@functools.cache
def steps_of_model(name, policy="float32", **settings):
    """Weights of a row's model before and after two steps."""
    with precision_policy(policy):
        model = model_of(name)
    start = weights_of(model)
    model.compile(sgd(policy), **settings)
    return start, train(model)


class AddedLoss(keras.layers.Layer):
    def call(self, inputs):
        self.add_loss(tf.reduce_mean(inputs**2))
        return inputs


# Settings of a dense layer, the layer behind it, and settings of the optimiser.
FEATURES = {
    "L2": ({"kernel_regularizer": keras.regularizers.L2(0.1)}, None, {}),
    "activity": ({"activity_regularizer": keras.regularizers.L2(0.1)}, None, {}),
    "add_loss": ({}, AddedLoss, {}),
    "averages": ({}, None, {"use_ema": True, "ema_momentum": 0.5}),
    "global clipping": ({}, None, {"global_clipnorm": 0.01}),
    "accumulation": ({}, None, {"gradient_accumulation_steps": 2}),
    "fixed scale": ({}, None, {"loss_scale_factor": 64.0}),
}


@functools.cache
def steps_with(feature, in_metric_model):
    """The losses and the weights of a model with a feature of Keras, after four steps."""
    of_layer, behind, of_optimizer = FEATURES.get(feature, ({}, None, {}))
    layers = [keras.layers.Dense(DIM, kernel_initializer=keras.initializers.GlorotUniform(seed=1), **of_layer)]
    model = keras.Sequential([keras.Input((INPUTS,)), *layers, *([behind()] if behind else [])])
    loss = losses.ContrastiveLoss(normalization="none")  # a MetricModel normalises before the loss does, which rounds
    model = MetricModel(model, loss) if in_metric_model else model
    optimizer = keras.optimizers.SGD(LEARNING_RATE, momentum=0.9, **of_optimizer)
    model.compile(optimizer, run_eagerly=True, **({} if in_metric_model else {"loss": loss}))
    inputs, labels = batches()
    history = model.fit(inputs, labels, batch_size=BATCH, epochs=2, shuffle=False, verbose=0).history
    return [*history["loss"], model.evaluate(inputs, labels, batch_size=BATCH, verbose=0)], weights_of(model)


def assert_nearly_the_same_steps(found, expected, start):
    assert np.linalg.norm(expected - start) > 0
    assert np.linalg.norm(found - expected) <= 0.1 * np.linalg.norm(expected - start) + 1e-6


@pytest.mark.one_in(4)
@pytest.mark.parametrize("name", ["drawn by the batch", *WITHOUT_WEIGHTS])
def test_plain_model_saves_loads_and_trains_on(name, tmp_path):
    drawn = losses.MinedLoss(losses.TripletLoss(), "semi_hard", draws_by="batch")
    loss = ROWS[name]() if name in ROWS else drawn
    model = network()
    model.compile(FusedAdam(0.01), loss=loss, run_eagerly=True)
    assert_trains_on_alike(model, tmp_path)


@pytest.mark.parametrize("name", WITH_WEIGHTS)
def test_plain_model_refuses_weights_that_it_would_not_train(name):
    model = network()
    model.compile("sgd", loss=ROWS[name](), run_eagerly=True)
    before = model.get_weights()
    with pytest.raises(
        ValueError, match=r"loss of compile: received '\w+', expected a loss without weights.*MetricModel"
    ):
        train(model)
    np.testing.assert_array_equal(model.get_weights()[0], before[0])


@pytest.mark.one_in(4)
@pytest.mark.parametrize("name", ["MultiSimilarityLoss", *IN_METRIC_MODEL])
def test_metric_model_saves_loads_and_trains_on(name, tmp_path):
    model = model_of(name)
    model.compile(FusedAdam(0.01), metrics=[InBatchPrecision()], run_eagerly=True)
    start = [np.array(weight) for weight in model.metric_loss.weights]
    assert_trains_on_alike(model, tmp_path)
    for weight, value in zip(model.metric_loss.weights, start):
        changed = np.any(np.array(weight) != value)
        assert changed != ("groups" in weight.name), "proxies move, memories fill, counters advance; groups stay"


@pytest.mark.one_in(9)
@pytest.mark.filterwarnings("ignore:.*(has not used its memory|no projection problem)")
@pytest.mark.parametrize("name", IN_METRIC_MODEL)
def test_metric_model_exports_clones_and_saves_weights(name, tmp_path):
    model = model_of(name)
    model.compile("sgd", run_eagerly=True)
    train(model)
    inputs = batches()[0]
    expected = model.predict(inputs, verbose=0)
    model.export(tmp_path / "served")
    served = tf.saved_model.load(str(tmp_path / "served"))
    np.testing.assert_allclose(served.serve(inputs), expected, rtol=1e-5, atol=1e-6)
    clone = type(model).from_config(model.get_config())
    model.save_weights(tmp_path / "model.weights.h5")
    clone.load_weights(tmp_path / "model.weights.h5")
    np.testing.assert_array_equal(clone(inputs), expected)
    if hasattr(model, "quantize"):
        model.quantize("int8")
        np.testing.assert_allclose(model.predict(inputs, verbose=0), expected, atol=0.05)


@pytest.mark.parametrize(
    "loss", ["mse", tf.reduce_mean, keras.losses.MeanSquaredError()], ids=["name", "function", "layer"]
)
def test_metric_model_refuses_what_is_no_metric_loss(loss):
    with pytest.raises(InvalidInput, match="metric_loss.*expected a MetricLoss.*compile"):
        MetricModel(network(), loss)


def _direct(labels):
    return losses.MultiSimilarityLoss()(tf.ones([BATCH, DIM]), labels)


def _compiled(labels):
    model = network()
    model.compile("sgd", loss=losses.MultiSimilarityLoss(), run_eagerly=True)
    return model.train_on_batch(np.ones([len(labels), INPUTS], np.float32), labels)


def _held(labels):
    model = MetricModel(network(), losses.MultiSimilarityLoss())
    model.compile("sgd", run_eagerly=True)
    return model.train_on_batch(np.ones([len(labels), INPUTS], np.float32), labels)


def _evaluated(labels):
    return evaluate_retrieval(np.ones([BATCH, DIM], np.float32), labels).map_at_r


DOORS = {"direct": _direct, "compile": _compiled, "MetricModel": _held, "evaluate_retrieval": _evaluated}
CLASSES = np.arange(BATCH) % 2


@pytest.mark.parametrize("door", DOORS)
@pytest.mark.parametrize("dtype", [np.int64, np.float32])
def test_one_hot_labels_are_refused_with_the_fix_at_each_door(door, dtype):
    with pytest.raises(ValueError, match=r"np\.argmax\(labels, axis=1\)") as error:
        DOORS[door](np.eye(4, dtype=dtype)[CLASSES])
    assert f"{BATCH}, 4" in str(error.value), "the shape of the labels, not of the embeddings"


@pytest.mark.parametrize("door", DOORS)
def test_a_column_of_labels_is_taken_at_each_door(door):
    np.testing.assert_allclose(DOORS[door](CLASSES[:, None]), DOORS[door](CLASSES), rtol=1e-5)


@pytest.mark.parametrize("door", ["direct", "evaluate_retrieval"])
def test_labels_of_another_length_are_refused(door):
    with pytest.raises(InvalidInput, match=rf"received .*{BATCH - 2}.*, expected .*each embedding"):
        DOORS[door](CLASSES[:-2])


STARTS = {
    "memory": (lambda: losses.CrossBatchMemoryLoss(losses.ContrastiveLoss(), 64, DIM), "has not used its memory"),
    "problem": (
        lambda: ChanceConstrainedLoss(losses.ContrastiveLoss(), ProxyBank(NUM_CLASSES, 2, DIM)),
        "no projection problem has begun",
    ),
}


@pytest.mark.parametrize("use", ["fit", "save", "predict"])
@pytest.mark.parametrize("start", STARTS)
def test_a_loss_that_has_not_begun_says_so_once(start, use, tmp_path):
    make, message = STARTS[start]
    model = MetricModel(network(), make())
    model.compile("sgd", run_eagerly=True)
    inputs = batches()[0]
    uses = {
        "fit": lambda: train(model),
        "save": lambda: model.save(tmp_path / "model.keras"),
        "predict": lambda: model.predict(inputs, verbose=0),
    }
    with pytest.warns(UserWarning, match=message):
        uses[use]()
    with warnings.catch_warnings():
        warnings.filterwarnings("error", message=message)
        uses[use]()


@pytest.mark.parametrize("feature", FEATURES)
def test_metric_model_does_what_compile_does(feature):
    """Weights bit for bit; the mean of losses is rounded in another order."""
    unknown = set(FEATURES[feature][2]) - set(inspect.signature(keras.optimizers.SGD.__init__).parameters)
    if unknown:
        pytest.skip(f"This Keras has no {', '.join(unknown)}.")
    found, expected = (steps_with(feature, in_metric_model) for in_metric_model in (True, False))
    np.testing.assert_allclose(found[0], expected[0], rtol=1e-6)
    for one, other in zip(found[1], expected[1], strict=True):
        np.testing.assert_array_equal(one, other)
    if feature != "fixed scale":
        assert np.any(found[1][0] != steps_with(None, True)[1][0]), "it makes a difference"


def test_the_end_of_fit_gives_every_variable_its_own_average():
    """Also where proxies stand between the others in the order of the model."""
    model = MetricModel(
        network_with_attributes(),
        losses.ProxyAnchorLoss(NUM_CLASSES, DIM),
        attribute_loss=ZeroShotPredictionLoss(NUM_CLASSES, DIM),
        attribute_weight=0.1,
        proxy_multiplier=5.0,
    )
    model.compile(keras.optimizers.Adam(LEARNING_RATE, use_ema=True), run_eagerly=True)
    moved = []
    record = keras.callbacks.LambdaCallback(on_train_batch_end=lambda batch, logs: moved.append(variables_of(model)))
    inputs, labels = batches()
    model.fit(inputs, labels, batch_size=BATCH, verbose=0, callbacks=[record])
    averages = optimizer_state(model)
    for variable, last in zip(variables_of(model), moved[-1], strict=True):
        assert np.any(variable != last)
        assert any(np.array_equal(variable, average) for average in averages)


def variables_of(model):
    return [np.array(variable) for variable in model.trainable_variables]


@pytest.mark.one_in(6)
@pytest.mark.parametrize("name", IN_METRIC_MODEL)
def test_metric_model_in_half_precision(name):
    start, expected = steps_of_model(name, run_eagerly=True)
    found = steps_of_model(name, "mixed_float16")[1]
    for half, full, before in zip(found, expected, start, strict=True):
        if full.dtype.kind == "f" and np.any(full != before):
            assert_nearly_the_same_steps(half, full, before)


@pytest.mark.one_in(9)
@pytest.mark.parametrize("name", IN_METRIC_MODEL)
def test_metric_model_under_xla(name):
    expected, found = (
        steps_of_model(name, **settings)[1] for settings in ({"run_eagerly": True}, {"jit_compile": True})
    )
    for value, reference in zip(found, expected, strict=True):
        np.testing.assert_allclose(value, reference, rtol=1e-4, atol=1e-5)
