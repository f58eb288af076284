"""Training loop: exact resume, best weights, early stopping, plateau, warm-up, NaN."""

import itertools
import json

import numpy as np
import pytest
import tensorflow as tf

from common.losses import CosineContrastive, CrossBatchMemoryLoss, ProxyNCA
from common.ops.checks import InvalidInput
from common.pooling import GlobalAveragePooling
from common.training import (
    CoupledWeightDecay,
    EmbeddingHead,
    EmbeddingModel,
    ResumableCallback,
    RunDirectory,
    TrainingSchedule,
    TwoSpeedOptimizer,
    fit,
)

keras = tf.keras
CLASSES, DIM = 4, 6


def batches_from(step):
    """Batches that are a pure function of the step, as in the product."""

    def generate():
        for index in itertools.count(step):
            generator = np.random.default_rng(index)
            labels = np.repeat(np.arange(CLASSES), 3)
            images = labels[:, None, None, None] * 20.0 + generator.normal(0, 30, (12, 8, 8, 1))
            yield images.astype(np.float32), labels.astype(np.int64)

    signature = (tf.TensorSpec((None, 8, 8, 1), tf.float32), tf.TensorSpec((None,), tf.int64))
    return tf.data.Dataset.from_generator(generate, output_signature=signature)


def make_model(metric_loss=None, seed=3):
    keras.utils.set_random_seed(seed)
    backbone = keras.Sequential(
        [
            keras.Input((None, None, 1)),
            keras.layers.Rescaling(1 / 128),
            keras.layers.Conv2D(8, 3),
            keras.layers.BatchNormalization(),
            keras.layers.ReLU(),
        ]
    )
    head = EmbeddingHead(GlobalAveragePooling(), DIM)
    model = EmbeddingModel(backbone, head, metric_loss or ProxyNCA(CLASSES, DIM))
    model.build_on(*next(iter(batches_from(0))))
    return model


class Validation:
    """Metrics that are given, or a function of the model's weights (so that they depend on an exact resume)."""

    def __init__(self, model, given=None, stop_after=None):
        self.model, self.given, self.calls, self.stop_after = model, given, 0, stop_after

    def __call__(self):
        self.calls += 1
        if self.stop_after is not None and self.calls > self.stop_after:
            raise KeyboardInterrupt
        if self.given is not None:
            return {"MAP@R": self.given[self.calls - 1]}
        return {"MAP@R": float(np.abs(self.model.get_weights()[0]).sum()), "P@1": 0.5}


def run_training(path, model=None, validation=None, learning_rate=0.01, extra_callbacks=(), **schedule):
    model = model or make_model()
    schedule = {"max_steps": 12, "steps_per_evaluation": 2, "patience": 20, "checkpoint_seconds": 0.0, **schedule}
    run = RunDirectory(path, {})
    history = fit(
        model,
        batches_from,
        validation or Validation(model),
        run,
        TrainingSchedule(**schedule),
        lambda: TwoSpeedOptimizer(keras.optimizers.Adam(learning_rate, beta_2=0.99), 10.0),
        [CoupledWeightDecay(1e-4, model)],
        extra_callbacks=extra_callbacks,
    )
    return model, history, run


def metric_lines(run):
    lines = [json.loads(line) for line in (run.path / "metrics.jsonl").read_text().splitlines()]
    return [{key: line[key] for key in ("step", "loss", "validation")} for line in lines]


@pytest.mark.parametrize("schedule", [{}, {"warm_up_steps": 3}, {"plateau_patience": 1}, {"patience": 2}])
@pytest.mark.parametrize("loss", ["pnca", "xbm"])
def test_an_interrupted_run_goes_on_bit_for_bit(tmp_path, schedule, loss):
    def new_model():
        memory_loss = CrossBatchMemoryLoss(CosineContrastive(), memory_size=30, embedding_dim=DIM, start_step=3)
        return make_model(memory_loss if loss == "xbm" else None)

    whole, expected, whole_run = run_training(tmp_path / "whole", new_model(), **schedule)
    for evaluations in (1, 3):
        model = new_model()
        with pytest.raises(KeyboardInterrupt):
            run_training(tmp_path / "parts", model, Validation(model, stop_after=evaluations - 1), **schedule)
    resumed, history, run = run_training(tmp_path / "parts", new_model(), **schedule)
    assert history == expected
    assert metric_lines(run) == metric_lines(whole_run)
    for weight, other in zip(whole.get_weights(), resumed.get_weights()):
        np.testing.assert_array_equal(weight, other)


class EndAfter(ResumableCallback):
    """Ends a training for good after some evaluations."""

    def __init__(self, num_evaluations):
        super().__init__()
        self.remaining = num_evaluations

    @property
    def stopped(self):
        return self.remaining == 0

    def on_epoch_end(self, epoch, logs=None):
        self.remaining -= 1
        self.model.stop_training = self.stopped

    def state(self):
        return {"remaining": self.remaining}

    def restore(self, state, arrays):
        self.remaining = state["remaining"]


@pytest.mark.parametrize(
    ("callbacks", "patience"), [(lambda: [EndAfter(3)], 20), (lambda: [], 2)], ids=["a callback", "patience"]
)
def test_a_training_that_was_over_when_it_was_killed_stays_over(tmp_path, callbacks, patience):
    given = [0.3, 0.2, 0.1]
    model, expected, run = run_training(
        tmp_path, validation=Validation(None, given), patience=patience, extra_callbacks=callbacks()
    )
    lines = metric_lines(run)
    again, history, _ = run_training(
        tmp_path, make_model(seed=4), Validation(None, []), patience=patience, extra_callbacks=callbacks()
    )
    assert history == expected
    assert expected["best"] == {"step": 2, "MAP@R": 0.3}
    assert metric_lines(run) == lines
    for weight, other in zip(model.get_weights(), again.get_weights()):
        np.testing.assert_array_equal(weight, other)


def test_training_lowers_the_loss_and_moves_every_part(tmp_path):
    model = make_model()
    before = [np.array(weight) for weight in model.get_weights()]
    _, _, run = run_training(tmp_path, model, max_steps=60, steps_per_evaluation=20)
    losses = [line["loss"] for line in metric_lines(run)]
    assert losses[-1] < losses[0] < 2 * np.log(CLASSES)
    assert all(np.any(old != new) for old, new in zip(before, model.get_weights()))


def test_best_weights_come_back_and_patience_ends_training(tmp_path):
    model = make_model()
    validation = Validation(model, given=[0.1, 0.5, 0.4, 0.5, 0.3, 0.9])
    weights = {}
    original = validation.__call__

    def remember():
        value = original()
        weights[validation.calls] = [np.array(weight) for weight in model.get_weights()]
        return value

    model, history, _ = run_training(tmp_path, model, remember, patience=3)
    assert history == {"best": {"step": 4, "MAP@R": 0.5}, "steps": 10}
    for weight, best in zip(model.get_weights(), weights[2]):
        np.testing.assert_array_equal(weight, best)


def test_plateau_halves_the_learning_rate(tmp_path):
    model = make_model()
    run_training(tmp_path, model, Validation(model, given=[0.5] * 6), plateau_patience=2)
    # Two evaluations without improvement halve it (evaluations 3 and, after a cooldown of 2, 6).
    np.testing.assert_allclose(float(np.asarray(model.optimizer.learning_rate)), 0.01 / 4, rtol=1e-6)


def test_warm_up_leaves_the_backbone_as_it_is(tmp_path):
    model = make_model()
    before = [np.array(weight) for weight in model.backbone.get_weights()]
    head_before = np.array(model.head.get_weights()[0])
    validation = Validation(model, stop_after=0)
    with pytest.raises(KeyboardInterrupt):
        run_training(
            tmp_path, model, validation, warm_up_steps=4, max_steps=1, steps_per_evaluation=1, learning_rate=0.0
        )
    for old, new in zip(before[:2], model.backbone.get_weights()[:2]):
        np.testing.assert_array_equal(old, new)
    assert np.array_equal(head_before, model.head.get_weights()[0])  # a learning rate of 0 moves nothing

    model = make_model()
    with pytest.raises(KeyboardInterrupt):
        run_training(tmp_path / "b", model, Validation(model, stop_after=0), warm_up_steps=4, max_steps=1)
    checkpoint = RunDirectory(tmp_path / "b", {}).read_checkpoint()
    saved = [checkpoint[key] for key in sorted(checkpoint) if key.startswith("weights.")]
    by_shape = {value.shape: value for value in saved}
    np.testing.assert_array_equal(by_shape[before[0].shape], before[0])
    assert np.any(by_shape[head_before.shape] != head_before)


def test_a_loss_that_is_not_finite_stops_and_keeps_the_checkpoint(tmp_path):
    model = make_model()
    run_training(tmp_path, model, max_steps=2)
    kept = (tmp_path / "checkpoint.npz").read_bytes()
    model = make_model()
    original = model.training_loss
    model.training_loss = lambda inputs, labels: original(inputs, labels) * float("nan")
    with pytest.raises(InvalidInput, match="loss became nan"):
        run_training(tmp_path, model, max_steps=4)
    assert (tmp_path / "checkpoint.npz").read_bytes() == kept


def test_a_checkpoint_of_another_model_is_refused(tmp_path):
    run_training(tmp_path, max_steps=2)
    with pytest.raises(InvalidInput, match="other shapes"):
        run_training(tmp_path, make_model(ProxyNCA(CLASSES + 1, DIM)))


def test_tensorboard_files_are_written(tmp_path):
    _, _, run = run_training(tmp_path, max_steps=2)
    assert list((run.path / "tensorboard").glob("events.out.tfevents*"))
