"""What is special about the model; that every loss trains in it, is in `conformance/keras_test.py`."""

import numpy as np
import pytest
import tensorflow as tf

from common.errors import InvalidInput
from common.losses import ContrastiveLoss, MinedLoss, ProxyAnchorLoss, ProxyNCALoss, WeightedSumLoss
from common.retrieval import evaluate_retrieval
from common.training import InBatchPrecision, MetricModel, RetrievalEvaluation
from common.training.callback_order import check_callback_order
from common.training.devices import IS_KERAS_3

keras = tf.keras
LABELS = np.repeat(np.arange(3), 2)
INPUTS = np.random.default_rng(0).normal(size=(6, 4)).astype(np.float32)


def network():
    return keras.Sequential([keras.Input((4,)), keras.layers.Dense(4, kernel_initializer="identity")])


def model_with(loss=None, compiled=True, **settings):
    model = MetricModel(network(), loss or ContrastiveLoss(positive_margin=0.0), **settings)
    if compiled:
        model.compile(keras.optimizers.SGD(0.1), run_eagerly=True)
    return model


def fit(model, labels=LABELS, **settings):
    return model.fit(INPUTS, labels, batch_size=6, shuffle=False, verbose=0, **settings)


def test_the_loss_of_fit_and_evaluate_is_that_of_the_embeddings():
    model = model_with()
    model.compile(keras.optimizers.SGD(0.1), metrics=[InBatchPrecision()], run_eagerly=True)
    expected = float(ContrastiveLoss(positive_margin=0.0)(INPUTS, LABELS))
    names = [*model.evaluate(INPUTS, LABELS, batch_size=6, verbose=0, return_dict=True)]
    values = model.evaluate(INPUTS, LABELS, batch_size=6, verbose=0)
    assert (sorted(names), len(values)) == (["in_batch_P@1", "loss"], 2)
    assert values[0] == pytest.approx(expected, rel=1e-5)
    history = fit(model, validation_data=(INPUTS, LABELS), epochs=2).history
    assert history["loss"][0] == pytest.approx(expected, rel=1e-5)
    assert history["loss"][1] == pytest.approx(history["val_loss"][0], rel=1e-5)
    assert history["loss"][1] < history["loss"][0]


def test_embeddings_are_normalised_as_the_loss_does():
    lengths = np.linalg.norm(model_with().embed([INPUTS[:4], INPUTS[4:]]), axis=1)
    np.testing.assert_allclose(lengths, np.ones(6), rtol=1e-6)
    clipped = model_with(ContrastiveLoss(normalization="clip")).predict(INPUTS, verbose=0)
    np.testing.assert_allclose(clipped, INPUTS / np.maximum(1, np.linalg.norm(INPUTS, axis=1))[:, None], rtol=1e-6)


@pytest.mark.parametrize("scaled", [False, True])
def test_one_norm_is_clipped_at_every_rate_of_the_proxies(scaled):
    model = model_with(ProxyAnchorLoss(3, 4), compiled=False, proxy_multiplier=1 + 1e-6)
    optimizer = keras.optimizers.SGD(1.0, global_clipnorm=0.1)
    model.compile(keras.mixed_precision.LossScaleOptimizer(optimizer) if scaled else optimizer, run_eagerly=True)
    before = [np.array(variable) for variable in model.trainable_variables]
    fit(model)
    moves = [np.array(variable) - start for variable, start in zip(model.trainable_variables, before)]
    assert np.linalg.norm(np.concatenate([move.ravel() for move in moves])) == pytest.approx(0.1, rel=1e-4)


@pytest.mark.skipif(not IS_KERAS_3, reason="Keras 2 accumulates no gradients")
def test_one_norm_of_accumulated_gradients_is_refused():
    model = model_with(ProxyAnchorLoss(3, 4), compiled=False, proxy_multiplier=2.0)
    optimizer = keras.optimizers.SGD(1.0, global_clipnorm=0.1, gradient_accumulation_steps=2)
    with pytest.raises(InvalidInput, match="gradient_accumulation_steps: received 2, expected None with global_clip"):
        model.compile(optimizer)


def test_a_network_in_inference_mode_is_not_told_that_it_trains():
    layers = [keras.Input((4,)), keras.layers.BatchNormalization()]
    model = MetricModel(keras.Sequential(layers), MinedLoss(ContrastiveLoss()))
    model.compile(keras.optimizers.SGD(0.1), run_eagerly=True)
    model.evaluate(INPUTS + 3, LABELS, verbose=0)
    state = model.network.layers[0].moving_mean, model.metric_loss.step
    assert (float(np.sum(state[0])), int(np.array(state[1]))) == (0.0, 0)
    fit(model)
    assert (float(np.sum(state[0])) != 0.0, int(np.array(state[1]))) == (True, 1)


def test_several_steps_in_one_execution_are_the_same_steps():
    weights = []
    for settings in ({"run_eagerly": True}, {"steps_per_execution": 2}):
        model = model_with(MinedLoss(ContrastiveLoss(), "random"), compiled=False)
        model.compile(keras.optimizers.SGD(0.1), **settings)
        model.fit(INPUTS, LABELS, batch_size=4, shuffle=False, verbose=0)
        assert int(np.array(model.metric_loss.step)) == 2
        weights.append(np.array(model.network.layers[-1].kernel))
    np.testing.assert_allclose(*weights, rtol=1e-5, atol=1e-7)
    assert np.abs(weights[0] - np.eye(4)).max() > 1e-3


@pytest.mark.parametrize("jit_compile", [False, True])
def test_validation_on_new_classes_has_metrics_and_no_loss(capfd, jit_compile):
    model = model_with(WeightedSumLoss([ProxyAnchorLoss(3, 4), ContrastiveLoss()]), compiled=False)
    model.compile("sgd", metrics=[InBatchPrecision()], jit_compile=jit_compile)
    history = fit(model, epochs=2, validation_data=(INPUTS, LABELS + 7)).history
    assert np.isnan(history["val_loss"]).all()
    assert np.isfinite(history["loss"]).all()
    assert history["val_in_batch_P@1"][0] == history["in_batch_P@1"][1]
    assert capfd.readouterr().err.count("is NaN") == 1
    assert np.isfinite(fit(model, validation_data=(INPUTS, LABELS)).history["val_loss"]).all()


IDENTITY_LOSS = keras.losses.SparseCategoricalCrossentropy(from_logits=True)


def two_heads(loss=None):
    inputs = keras.Input((4,))
    heads = {name: keras.layers.Dense(size, name=name)(inputs) for name, size in (("embeddings", 4), ("logits", 3))}
    keras.utils.set_random_seed(1)
    return MetricModel(keras.Model(inputs, heads), loss or ProxyAnchorLoss(3, 4))


def test_losses_of_other_outputs_are_added_by_their_weights(tmp_path):
    model = two_heads()
    model.compile(keras.optimizers.SGD(0.1), loss={"logits": IDENTITY_LOSS}, loss_weights={"logits": 0.3})
    outputs = model.outputs_of(INPUTS)
    of_head = float(IDENTITY_LOSS(LABELS, outputs["logits"]))
    of_embeddings = float(model.metric_loss(outputs["embeddings"], LABELS))
    others = {"embeddings": LABELS, "logits": LABELS[::-1]}  # targets of their own
    found = model.evaluate(INPUTS, others, batch_size=6, verbose=0, return_dict=True)
    assert found["logits_loss"] == pytest.approx(float(IDENTITY_LOSS(LABELS[::-1], outputs["logits"])), rel=1e-5)
    kernel = np.array(model.network.get_layer("logits").kernel)
    history = fit(model, validation_data=(INPUTS, LABELS)).history
    assert history["logits_loss"] == [pytest.approx(of_head, rel=1e-5)]
    assert history["loss"] == [pytest.approx(of_embeddings + 0.3 * of_head, rel=1e-5)]
    assert history["val_logits_loss"][0] < of_head
    assert np.any(np.array(model.network.get_layer("logits").kernel) != kernel)
    model.save(tmp_path / "model.keras")
    loaded = keras.models.load_model(tmp_path / "model.keras")
    assert fit(loaded).history == fit(model).history
    model.compile("sgd", run_eagerly=True)
    assert list(fit(model).history) == ["loss"]


def test_other_losses_of_class_ids_are_unknown_for_new_classes():
    """A loss without proxies knows all classes, the classifier beside it three."""
    model = two_heads(ContrastiveLoss())
    model.compile("sgd", loss={"logits": IDENTITY_LOSS}, run_eagerly=True)
    history = fit(model, validation_data=(INPUTS, LABELS + 7)).history
    assert np.isnan([*history["val_loss"], *history["val_logits_loss"]]).all()
    history = fit(model, validation_data=(INPUTS, {"embeddings": LABELS + 7, "logits": LABELS})).history
    assert np.isfinite([*history["val_loss"], *history["val_logits_loss"]]).all()


def test_weights_of_samples_are_those_of_each_output():
    model, weights = two_heads(ProxyNCALoss(3, 4)), np.array([0.0, 0.5, 1.0, 2.0, 0.25, 1.0])
    model.compile("sgd", loss={"logits": IDENTITY_LOSS}, run_eagerly=True)
    targets = {"embeddings": LABELS, "logits": LABELS}
    outputs = model.outputs_of(INPUTS)
    weighted = float(IDENTITY_LOSS(LABELS, outputs["logits"], weights))
    plain = float(IDENTITY_LOSS(LABELS, outputs["logits"]))
    expected = float(model.metric_loss(outputs["embeddings"], LABELS, sample_weight=weights))
    for given, of_head in ((weights, weighted), ({"embeddings": weights}, plain)):
        settings = {"batch_size": 6, "verbose": 0, "return_dict": True}
        if isinstance(given, dict) and IS_KERAS_3:  # which wants the structure of the targets
            given = {**given, "logits": np.ones(6)}
        found = model.evaluate(INPUTS, targets, sample_weight=given, **settings)
        assert found["logits_loss"] == pytest.approx(of_head, rel=1e-5)
        assert found["loss"] == pytest.approx(expected + of_head, rel=1e-5)


def test_a_model_is_saved_before_it_is_compiled(tmp_path):
    model_with(ProxyAnchorLoss(3, 4), compiled=False).save(tmp_path / "model.keras")
    loaded = keras.models.load_model(tmp_path / "model.keras")
    assert getattr(loaded, "optimizer", None) is None


@pytest.mark.parametrize("scaled", [False, True])
def test_proxies_have_an_optimiser_of_their_own(tmp_path, scaled):
    """Plain descent at a rate of 2, while Adam trains the network."""
    loss = ProxyNCALoss(3, 4)
    model = model_with(loss, compiled=False)
    optimizer = keras.optimizers.Adam(1e-3)
    optimizer = keras.mixed_precision.LossScaleOptimizer(optimizer) if scaled else optimizer
    model.compile(optimizer, proxy_optimizer=keras.optimizers.SGD(2.0))
    before = np.array(loss.proxy_bank.proxies)
    with tf.GradientTape() as tape:
        value = loss(INPUTS, LABELS)
    gradient = np.array(tape.gradient(value, loss.trainable_variables[0]))
    fit(model)
    np.testing.assert_allclose(np.array(loss.proxy_bank.proxies), before - 2 * gradient, rtol=1e-5, atol=1e-7)
    assert np.abs(np.array(model.network.layers[0].kernel) - np.eye(4)).max() == pytest.approx(1e-3, rel=1e-3)
    model.save(tmp_path / "model.keras")
    assert fit(keras.models.load_model(tmp_path / "model.keras")).history == fit(model).history


def test_averages_of_proxies_are_those_of_their_optimiser():
    loss = ProxyNCALoss(3, 4)
    model = model_with(loss, compiled=False)
    model.compile("sgd", proxy_optimizer=keras.optimizers.SGD(2.0, use_ema=True, ema_momentum=0.5), run_eagerly=True)
    fit(model, epochs=3)
    averages = np.array(model.proxy_optimizer._model_variables_moving_average[0])
    np.testing.assert_array_equal(loss.proxy_bank.proxies, averages)


def test_a_schedule_is_that_of_proxies_times_the_multiplier():
    rate = keras.optimizers.schedules.PiecewiseConstantDecay([0, 1], [0.1, 0.01, 0.0])
    loss = ProxyNCALoss(3, 4)
    model = model_with(loss, compiled=False, proxy_multiplier=8.0)
    model.compile(keras.optimizers.SGD(rate), run_eagerly=True)
    for expected in (0.8, 0.08, 0.0):
        before = np.array(loss.proxy_bank.proxies)
        outputs = model.embed(INPUTS)
        with tf.GradientTape() as tape:
            value = loss(outputs, LABELS)
        gradient = np.array(tape.gradient(value, loss.trainable_variables[0]))
        fit(model)
        np.testing.assert_allclose(
            np.array(loss.proxy_bank.proxies), before - expected * gradient, rtol=1e-4, atol=1e-6
        )


def test_one_evaluation_of_arrays_and_of_batches():
    labels = np.array([7, 7, 8, 9, 8, 9])
    unit = INPUTS / np.linalg.norm(INPUTS, axis=1, keepdims=True)
    expected = {f"val_{name}": value for name, value in evaluate_retrieval(unit, labels).as_dict().items()}
    batches = tf.data.Dataset.from_tensor_slices((INPUTS, labels)).batch(4)
    cases = [
        RetrievalEvaluation(INPUTS, labels, batch_size=4),
        RetrievalEvaluation(batches),
        RetrievalEvaluation(Batches(INPUTS, labels)),
        RetrievalEvaluation([(INPUTS[:4], labels[:4]), (INPUTS[4:], labels[4:, None])]),
    ]
    plain, named = network(), two_heads().network
    plain.compile("sgd", loss=ContrastiveLoss(), steps_per_execution=2)
    named.get_layer("embeddings").set_weights([np.eye(4), np.zeros(4)])
    named.compile("sgd", loss={"embeddings": ContrastiveLoss(), "logits": IDENTITY_LOSS})
    targets = tf.data.Dataset.from_tensor_slices((INPUTS, {"embeddings": labels, "logits": labels})).batch(4)
    cases.append(RetrievalEvaluation(targets))
    for model in (model_with(), plain, named):
        for case in cases:
            case.set_model(model)
            logs = {}
            case.on_epoch_end(0, logs)
            assert logs == expected
    for inputs in (INPUTS, [INPUTS[:4], INPUTS[4:]], batches, iter([(INPUTS[:4], 0), (INPUTS[4:], 0)])):
        np.testing.assert_allclose(model_with().embed(inputs, 4), unit, rtol=1e-5)


class Batches(keras.utils.Sequence if not IS_KERAS_3 else keras.utils.PyDataset):
    """Two batches; reading a third is an error."""

    def __init__(self, inputs, labels):
        super().__init__()
        self.parts = [(inputs[:4], labels[:4]), (inputs[4:], labels[4:])]

    def __len__(self):
        return 2

    def __getitem__(self, place):
        assert place < 2
        return self.parts[place]


def test_stopping_before_the_evaluation_is_refused_by_its_name_of_validation():
    evaluation = RetrievalEvaluation(INPUTS, LABELS)
    stopping = keras.callbacks.EarlyStopping("val_MAP@R", mode="max")
    with pytest.raises(InvalidInput, match="Move EarlyStopping behind it"):
        fit(model_with(), callbacks=[stopping, evaluation])
    others = [RetrievalEvaluation(INPUTS, LABELS, prefix="seen_"), keras.callbacks.EarlyStopping("val_accuracy")]
    assert "val_MAP@R" in fit(model_with(), callbacks=[evaluation, stopping, others[0]]).history
    check_callback_order([others[1], others[0]])
    with pytest.raises(InvalidInput, match="Move EarlyStopping behind it"):
        check_callback_order([keras.callbacks.EarlyStopping("seen_P@1"), *others])


def test_weights_of_samples_and_classes_are_those_of_the_loss():
    loss, weights = ProxyNCALoss(3, 4), np.array([0.0, 0.5, 1.0, 2.0, 0.25, 1.0])
    model = model_with(loss)
    expected = float(loss(INPUTS, LABELS, sample_weight=weights))
    found = model.evaluate(INPUTS, LABELS, batch_size=6, verbose=0, sample_weight=weights, return_dict=True)
    assert found["loss"] == pytest.approx(expected)
    of_classes = float(loss(INPUTS, LABELS, sample_weight=weights[LABELS + 3]))
    by_class = {label: weights[label + 3] for label in range(3)}
    assert fit(model, class_weight=by_class).history["loss"] == [pytest.approx(of_classes)]


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: MetricModel(keras.Sequential([keras.layers.Dense(4)]), ContrastiveLoss()), "one that is built"),
        (lambda: model_with(proxy_multiplier=0.0), "proxy_multiplier: received 0.0, expected a number greater than 0"),
        (lambda: model_with(attribute_weight=0.1), "attribute_weight: received 0.1, expected 0 without"),
        (lambda: model_with().compile("sgd", loss="mse"), "received 'mse', expected losses of other outputs by name"),
        (
            lambda: two_heads().compile("sgd", loss={"head": IDENTITY_LOSS}),
            "received 'head', expected an output: logits",
        ),
        (lambda: two_heads().compile("sgd", loss={"logits": "mse"}), "loss of logits: received 'mse'"),
        (lambda: two_heads().compile("sgd", loss_weights={"logits": 1.0}), "expected a name of loss: none"),
        (
            lambda: model_with(ProxyAnchorLoss(3, 4), False, proxy_multiplier=2.0).compile(proxy_optimizer="sgd"),
            "1 with",
        ),
        (lambda: model_with().compile("sgd", proxy_optimizer="sgd"), "None for a loss without proxies"),
        (lambda: RetrievalEvaluation(INPUTS), "expected class ids"),
        (lambda: RetrievalEvaluation([(INPUTS, LABELS)], LABELS), "batches have their own"),
        (lambda: RetrievalEvaluation(iter([(INPUTS, LABELS)])), "a generator, which is read once"),
        (lambda: fit(model_with(), sample_weight=np.ones(6)), "sample_weight"),
        (lambda: fit(model_with(), np.eye(3)[LABELS]), r"shape of labels: received .*6, 3"),
        (lambda: model_with().fit(INPUTS, verbose=0), "data: received 'inputs alone'"),
        (lambda: model_with().fit(INPUTS, [*"abcd"], verbose=0), r"received 'string'.* np.unique\(labels, return_inv"),
        (lambda: model_with(proxy_multipler=3.0), "received .proxy_multipler.*Did you mean proxy_multiplier?"),
        (lambda: MetricModel(None, ContrastiveLoss()), "network: received 'NoneType', expected one that is built"),
    ],
)
def test_what_is_refused(call, message):
    with pytest.raises(InvalidInput, match=message):
        call()


def test_the_precision_of_the_model_is_in_its_configuration():
    network = keras.Sequential([keras.Input((4,)), keras.layers.Dense(4)])
    model = MetricModel(network, ContrastiveLoss(), name="mine", dtype="mixed_float16")
    again = MetricModel.from_config(model.get_config())
    assert (again.name, again.compute_dtype, again.variable_dtype) == ("mine", "float16", "float32")
