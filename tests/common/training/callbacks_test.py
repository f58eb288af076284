"""Callbacks by themselves; in the project's own loop they are tested where they train (`fit_test`)."""

from types import SimpleNamespace

import numpy as np
import pytest
import tensorflow as tf

from common.diagnostics import diagnose
from common.errors import InvalidInput
from common.losses import ProxyNCALoss
from common.pooling import GlobalAveragePooling
from common.retrieval import evaluate_retrieval
from common.training import (
    EmbeddingDiagnostics,
    EmbeddingHead,
    EmbeddingModel,
    InBatchPrecision,
    Perturbations,
    ProxyRateOptimizer,
    RetrievalEvaluation,
    check_callback_order,
)
from common.training.callbacks import BestWeights, MeanLoss, NotFinite, PlateauSchedule

keras = tf.keras


def test_diagnostics_are_logged_and_a_collapse_is_warned_of_once(capfd):
    rng = np.random.default_rng(0)
    inputs, labels = rng.normal(size=(12, 3)).astype(np.float32), np.repeat(np.arange(4), 3)
    model = keras.Sequential([keras.layers.Dense(2, use_bias=True, bias_initializer="ones")])
    model.build((None, 3))
    model.layers[0].kernel.assign([[1.0, 0.0], [0.0, 1.0], [1.0, -1.0]])  # two directions, so that nothing collapses
    model.compile(keras.optimizers.SGD(0.1), "mse", run_eagerly=True)
    callback = EmbeddingDiagnostics(lambda: (model.predict(inputs, verbose=0), labels))
    history = model.fit(inputs, np.zeros((12, 2)), batch_size=12, epochs=2, verbose=0, callbacks=[callback]).history
    expected = diagnose(model.predict(inputs, verbose=0), labels).figures
    assert {name: history[name][-1] for name in expected} == pytest.approx(expected)
    assert "warning" not in capfd.readouterr().err
    model.layers[0].kernel.assign(np.zeros((3, 2)))
    logs = {}
    callback.on_epoch_end(2, logs)
    callback.on_epoch_end(3, logs)
    assert capfd.readouterr().err.count("warning: The embeddings have collapsed to a point") == 1
    assert logs["uniformity"] == pytest.approx(0, abs=1e-6)
    restored = EmbeddingDiagnostics(callback.embed)
    restored.restore(callback.state(), callback.arrays())
    restored.on_epoch_end(4, logs)
    assert capfd.readouterr().err == ""
    with pytest.raises(InvalidInput, match="EmbeddingDiagnostics needs the logs"):
        callback.on_epoch_end(5)


@pytest.mark.parametrize("make", [BestWeights, PlateauSchedule])
def test_a_metric_that_nothing_has_measured_is_named(make):
    callback = make("MAP@R", 3)
    callback.set_model(keras.Sequential([keras.Input((2,)), keras.layers.Dense(1)]))
    callback.model.compile("sgd", "mse")
    with pytest.raises(InvalidInput, match=f"{make.__name__} found no 'MAP@R' in the logs .loss.. Put RetrievalEvalu"):
        callback.on_epoch_end(0, {"loss": 1.0})


def fed(callback, values):
    """The callback after evaluations, and at which of them it stopped the model."""
    model = SimpleNamespace(stop_training=False, get_weights=lambda: [np.zeros(1)], optimizer=None)
    model.optimizer = SimpleNamespace(learning_rate=tf.Variable(0.8))
    callback.set_model(model)
    rates, stopped = [], None
    for epoch, value in enumerate(values):
        callback.on_epoch_end(epoch, {"MAP@R": value})
        rates.append(round(float(model.optimizer.learning_rate), 4))
        stopped = epoch if model.stop_training and stopped is None else stopped
    return callback, rates, stopped


def test_patience_counts_evaluations_without_improvement():
    best, _, stopped = fed(BestWeights("MAP@R", patience=2), [0.1, 0.3, 0.3, 0.4, 0.4, 0.4])
    assert (best.best, best.best_epoch, stopped) == (0.4, 3, 5)


def test_what_comes_before_a_methods_parts_are_on_is_neither_selected_nor_waited_for():
    best, _, stopped = fed(BestWeights("MAP@R", patience=2, first_epoch=3), [0.9, 0.8, 0.7, 0.2, 0.3, 0.3, 0.3])
    assert (best.best, best.best_epoch, stopped) == (0.3, 4, 6)


def test_what_is_restored_remembers_that_the_best_counts():
    best, _, _ = fed(BestWeights("MAP@R", patience=2), [0.1, 0.3])
    restored = BestWeights("MAP@R", patience=2)
    restored.restore(best.state(), best.arrays())
    restored, _, _ = fed(restored, [0.2])
    assert (restored.best, restored.best_epoch) == (0.3, 1)


def test_what_is_held_is_kept_until_something_counts():
    held = iter([True] * 5 + [False] * 3)
    best, _, stopped = fed(BestWeights("MAP@R", patience=2, is_held=lambda: next(held)), [0.6, 0.9, 0.8, 0.7, 0.6])
    assert (best.best, best.best_epoch, stopped) == (0.9, 1, None)
    restored = BestWeights("MAP@R", patience=2, is_held=lambda: next(held))
    restored.restore(best.state(), best.arrays())
    restored, _, stopped = fed(restored, [0.4, 0.3, 0.3])
    assert (restored.best, restored.best_epoch, stopped) == (0.4, 0, 2)


def test_a_plateau_is_waited_for_anew_after_each_halving():
    _, rates, _ = fed(PlateauSchedule("MAP@R", patience=2, cooldown=2), [0.5] * 9)
    # The first improves and two wait; after a halving one cools down and two wait.
    assert rates == [0.8, 0.8, 0.4, 0.4, 0.4, 0.2, 0.2, 0.2, 0.1]


def test_a_bad_loss_is_named_by_its_step_since_the_beginning():
    mean_loss = MeanLoss(steps_per_epoch=10, first_step=3)
    mean_loss.on_epoch_begin(2)
    mean_loss.on_train_batch_end(0, {"loss": 1.0})
    with pytest.raises(NotFinite, match="The loss became nan at training batch 24 ") as caught:
        mean_loss.on_train_batch_end(1, {"loss": float("nan")})
    assert caught.value.step == 3 + 2 * 10 + 1


def evaluation():
    return RetrievalEvaluation(lambda: {"MAP@R": 0.5})


@pytest.mark.parametrize(
    "waiting",
    [
        keras.callbacks.EarlyStopping("MAP@R"),
        keras.callbacks.ReduceLROnPlateau("MAP@R", patience=2),
    ],
)
def test_a_callback_that_waits_stands_behind_the_one_that_measures(waiting):
    check_callback_order([evaluation(), waiting])
    message = (
        rf"callbacks: received .{type(waiting).__name__}.monitor='MAP@R'.* before the .* RetrievalEvaluation first"
    )
    with pytest.raises(InvalidInput, match=message):
        check_callback_order([waiting, evaluation()])


@pytest.mark.parametrize("monitor", ["loss", "val_loss", "P@1 here"])
def test_what_fit_itself_measures_can_be_monitored_anywhere(monitor):
    check_callback_order([keras.callbacks.EarlyStopping(monitor), evaluation()], ["P@1 here"])


def hits_and_queries(labels, embeddings):
    found = evaluate_retrieval(embeddings / np.linalg.norm(embeddings, axis=1, keepdims=True), labels)
    return round(found.precision_at_1 * found.num_queries), found.num_queries


def batch(seed):
    rng = np.random.default_rng(seed)
    return rng.integers(0, 6, 12), rng.normal(size=(12, 3)).astype(np.float32)


@pytest.mark.parametrize("shape", [(-1,), (-1, 1)])
def test_hits_of_all_batches_over_queries_of_all_batches(shape):
    metric, counts = InBatchPrecision(), []
    for seed in range(4):
        labels, embeddings = batch(seed)
        metric.update_state(labels.reshape(shape), 3.0 * embeddings)
        counts.append(hits_and_queries(labels, embeddings))
    hits, queries = np.sum(counts, axis=0)
    assert 0 < hits < queries < 4 * 12
    assert float(metric.result()) == pytest.approx(hits / queries)
    metric.reset_state()
    assert float(metric.result()) == 0.0


def test_a_batch_without_pairs_counts_nothing():
    metric = InBatchPrecision()
    metric.update_state(np.arange(3), np.ones((3, 2), np.float32))
    assert float(metric.num_queries) == 0.0
    assert float(metric.result()) == 0.0


MAPS = np.float32(np.random.default_rng(0).normal(size=(40, 3, 3, 50)))


def test_channels_are_dropped_and_shifted_alike_at_all_places():
    dropped = Perturbations(feature_dropout=0.4).of_features(tf.constant(MAPS), tf.constant(3)).numpy()
    kept = dropped != 0
    assert abs(kept.mean() - 0.6) < 0.03
    np.testing.assert_allclose(dropped[kept], (MAPS / 0.6)[kept], rtol=1e-6)
    assert (kept == kept[:, :1, :1]).all()
    noise = Perturbations(feature_noise=0.5).of_features(tf.constant(MAPS), tf.constant(3)).numpy() - MAPS
    np.testing.assert_allclose(noise, np.broadcast_to(noise[:, :1, :1], MAPS.shape), atol=1e-6)
    assert abs(noise[:, 0, 0].std() - 0.5) < 0.02


def test_images_get_noise_in_pixels():
    images = tf.constant(np.full((8, 20, 20, 3), 100, np.uint8))
    noisy = Perturbations(image_noise=10.0).of_images(images, tf.constant(0, tf.int64)).numpy()
    assert (abs(noisy.mean() - 100) < 0.5) & (abs(noisy.std() - 10) < 0.3)
    assert Perturbations(feature_noise=1.0).of_images(images, tf.constant(0)) is images


def test_draws_follow_seed_and_step_and_leave_inference_alone():
    def outputs(step, seed=0, training=True):
        keras.utils.set_random_seed(1)
        backbone = keras.Sequential([keras.Input((None, None, 1)), keras.layers.Conv2D(8, 3)])
        noise = Perturbations(0.1, 0.5, 0.1, seed)
        head = EmbeddingHead(GlobalAveragePooling(), 4)
        model = EmbeddingModel(backbone, head, ProxyNCALoss(2, 4), perturbations=noise)
        images = tf.reshape(tf.range(2.0 * 36), [2, 6, 6, 1])
        model.build_from_batch(images, tf.constant([0, 1]))
        model.compile_training(ProxyRateOptimizer(keras.optimizers.SGD(0.1), 1.0))
        model.optimizer.iterations.assign(step)
        return model(images, training=training).numpy()

    first = outputs(5)
    np.testing.assert_array_equal(first, outputs(5))
    np.testing.assert_array_equal(outputs(5, training=False), outputs(6, training=False))
    for others in (outputs(6), outputs(5, seed=1), outputs(5, training=False)):
        assert np.abs(first - others).max() > 1e-3
