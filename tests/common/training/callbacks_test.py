"""Callbacks in a plain Keras `fit`; in the project's own loop they are tested where they train (`fit_test`)."""

from types import SimpleNamespace

import numpy as np
import pytest
import tensorflow as tf

from common.diagnostics import diagnose
from common.errors import InvalidInput
from common.training import EmbeddingDiagnostics
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
