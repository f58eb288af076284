import errno
import itertools
import json
import os
import time

import numpy as np
import pytest
import tensorflow as tf

from common.errors import InvalidInput
from common.losses import CosineContrastiveLoss, CrossBatchMemoryLoss, ProxyNCALoss
from common.pooling import GlobalAveragePooling
from common.records import ResumableCallback, RunDirectory
from common.training import (
    Checkpoint,
    CoupledWeightDecay,
    EmbeddingHead,
    EmbeddingModel,
    FusedAdam,
    NotFinite,
    ProxyRateOptimizer,
    TrainingSchedule,
    fit,
)
from tests.support.eager_functions import eagerly
from tests.support.samples import sampled

keras = tf.keras
CLASSES, DIM = 4, 6
pytestmark = pytest.mark.usefixtures("functions_run_eagerly")


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


def make_model(metric_loss=None, seed=3, **settings):
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
    model = EmbeddingModel(backbone, head, metric_loss or ProxyNCALoss(CLASSES, DIM), **settings)
    model.build_from_batch(*next(iter(batches_from(0))))
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


def run_training(
    path,
    model=None,
    validation=None,
    learning_rate=0.01,
    extra_callbacks=(),
    batches=batches_from,
    watch=None,
    ema_decay=0.0,
    renews_batches=False,
    **schedule,
):
    model = model or make_model()
    schedule = {"max_steps": 8, "steps_per_evaluation": 2, "patience": 20, "checkpoint_seconds": 0.0, **schedule}
    run = RunDirectory(path, {})
    history = fit(
        model,
        batches,
        validation or Validation(model),
        run,
        TrainingSchedule(**schedule),
        lambda: ProxyRateOptimizer(FusedAdam(learning_rate, beta_2=0.99), 10.0, ema_decay=ema_decay),
        [CoupledWeightDecay(1e-4, model)],
        extra_callbacks=extra_callbacks,
        watch=watch,
        renews_batches=renews_batches,
    )
    return model, history, run


def metric_lines(run):
    lines = [json.loads(line) for line in (run.path / "metrics.jsonl").read_text().splitlines()]
    return [{key: line[key] for key in ("step", "loss", "validation")} for line in lines]


def assert_an_interrupted_run_goes_on_bit_for_bit(tmp_path, schedule, loss, stops=(1, 3)):
    def new_model():
        memory_loss = CrossBatchMemoryLoss(CosineContrastiveLoss(), memory_size=30, embedding_dim=DIM, start_step=3)
        return make_model(memory_loss if loss == "xbm" else None)

    whole, expected, whole_run = run_training(tmp_path / "whole", new_model(), **schedule)
    for evaluations in stops:
        model = new_model()
        with pytest.raises(KeyboardInterrupt):
            run_training(tmp_path / "parts", model, Validation(model, stop_after=evaluations - 1), **schedule)
    resumed, history, run = run_training(tmp_path / "parts", new_model(), **schedule)
    assert history == expected
    assert metric_lines(run) == metric_lines(whole_run)
    for weight, other in zip(whole.get_weights(), resumed.get_weights()):
        np.testing.assert_array_equal(weight, other)


@pytest.mark.slow
@sampled("schedule, loss", [{"patience": 2}, {"warm_up_steps": 3, "plateau_patience": 1}], ["pnca", "xbm"])
def test_an_interrupted_run_goes_on_bit_for_bit(tmp_path, schedule, loss):
    assert_an_interrupted_run_goes_on_bit_for_bit(tmp_path, schedule, loss)


@pytest.mark.slow
def test_an_interrupted_run_with_averages_and_graphs_goes_on_bit_for_bit(tmp_path):
    schedule = {"max_steps": 6, "plateau_patience": 1, "ema_decay": 0.7}
    with eagerly(False):
        assert_an_interrupted_run_goes_on_bit_for_bit(tmp_path, schedule, "xbm", stops=[2])


def test_batches_that_follow_the_weights_are_made_anew_for_each_period(tmp_path):
    schedule = {"max_steps": 6, "warm_up_steps": 3, "plateau_patience": 1, "renews_batches": True}

    def trained(folder, stop_after=None):
        model, asked = make_model(), []

        def batches(step):
            asked.append(step)
            scale = np.float32(np.abs(model.get_weights()[0]).mean())
            return batches_from(step).map(lambda images, labels: (scale * images, labels))

        *_, run = run_training(folder, model, Validation(model, None, stop_after), batches=batches, **schedule)
        return asked, metric_lines(run), model.get_weights()

    asked, lines, weights = trained(tmp_path / "whole")
    assert asked == [0, 3, 5, 7]
    with pytest.raises(KeyboardInterrupt):
        trained(tmp_path / "parts", stop_after=1)
    asked, resumed_lines, resumed = trained(tmp_path / "parts")
    assert asked == [5, 7]
    assert resumed_lines == lines
    for weight, other in zip(weights, resumed, strict=True):
        np.testing.assert_array_equal(weight, other)


def test_averages_are_evaluated_and_kept_while_training_goes_on_as_without(tmp_path):
    figures, seen = [0.1, 0.5, 0.2, 0.3, 0.4, 0.45], []
    plain, model = make_model(), make_model()

    def validation():
        seen.append(model.get_weights())
        return {"MAP@R": figures[len(seen) - 1]}

    six = {"max_steps": 6, "steps_per_evaluation": 1}
    *_, plain_run = run_training(tmp_path / "plain", plain, Validation(plain, figures), **six)
    *_, run = run_training(tmp_path / "averaged", model, validation, ema_decay=0.9, **six)
    for kept, averages, last in zip(model.get_weights(), seen[1], seen[-1]):
        np.testing.assert_array_equal(kept, averages)
        assert kept.ndim == 1 or np.any(kept != last)
    trained, expected = (each.read_checkpoint() for each in (run, plain_run))
    names = [name for name in expected if name.startswith("weights.")]
    assert any(np.any(trained[name] != average) for name, average in zip(names, seen[-1]))
    for name in names:
        np.testing.assert_array_equal(trained[name], expected[name])


class EndAfter(ResumableCallback):
    """Ends a run for good after some evaluations."""

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


def test_the_end_of_a_training_is_saved_however_early_it_comes(tmp_path):
    _, _, run = run_training(tmp_path, validation=Validation(None, [0.3, 0.2, 0.1]), patience=2, checkpoint_seconds=1e9)
    assert json.loads(str(run.read_checkpoint()["state"]))["epochs_done"] == 3


def test_training_lowers_the_loss_and_moves_every_part(tmp_path, monkeypatch):
    checked = []
    monkeypatch.setattr(GlobalAveragePooling, "warn_of_unfinished_start", lambda layer: checked.append(layer))
    model = make_model()
    before = [np.array(weight) for weight in model.get_weights()]
    _, _, run = run_training(tmp_path, model, max_steps=30, steps_per_evaluation=10)
    losses = [line["loss"] for line in metric_lines(run)]
    assert losses[-1] < losses[0] < 2 * np.log(CLASSES)
    assert all(np.any(old != new) for old, new in zip(before, model.get_weights()))
    assert checked == [model.head.pooling]  # whether it has had its start


def test_best_weights_come_back_and_patience_ends_training(tmp_path):
    model = make_model()
    validation = Validation(model, given=[0.1, 0.5, 0.4, 0.5, 0.3, 0.9])
    weights = {}
    original = validation.__call__

    def remember():
        value = original()
        weights[validation.calls] = [np.array(weight) for weight in model.get_weights()]
        return value

    model, history, _ = run_training(tmp_path, model, remember, patience=3, max_steps=6, steps_per_evaluation=1)
    assert history == {"best": {"step": 2, "MAP@R": 0.5}, "steps": 5}
    for weight, best in zip(model.get_weights(), weights[2]):
        np.testing.assert_array_equal(weight, best)


def test_a_loss_that_is_not_finite_stops_and_keeps_the_checkpoint(tmp_path):
    model = make_model()
    run_training(tmp_path, model, max_steps=2)
    kept = (tmp_path / "checkpoint.npz").read_bytes()
    model = make_model()
    original = model.training_loss
    model.training_loss = lambda inputs, labels: original(inputs, labels) * float("nan")
    with pytest.raises(NotFinite, match=r"loss became nan at training batch 2 \(from 0; number 1 of") as caught:
        run_training(tmp_path, model, max_steps=4)
    assert caught.value.step == 2
    assert (tmp_path / "checkpoint.npz").read_bytes() == kept


@pytest.fixture(scope="module")
def whole(functions_run_eagerly, tmp_path_factory):
    """Weights, history and curve of a run that nothing disturbs."""
    model, history, run = run_training(tmp_path_factory.mktemp("whole"))
    return [np.array(weight) for weight in model.get_weights()], history, metric_lines(run)


def assert_goes_on_like(whole, path, watch=None):
    model, history, run = run_training(path, watch=watch)
    assert (history, metric_lines(run)) == whole[1:]
    for weight, other in zip(whole[0], model.get_weights()):
        np.testing.assert_array_equal(weight, other)


def test_who_watches_is_told_of_each_evaluation_and_again_of_one_without_checkpoint(tmp_path, whole):
    told = []

    def watch(step, metrics):
        told.append((step, metrics["P@1"]))
        if len(told) == 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run_training(tmp_path, watch=watch)
    assert_goes_on_like(whole, tmp_path, watch=watch)
    assert told == [(2, 0.5), (4, 0.5), (4, 0.5), (6, 0.5), (8, 0.5)]


def test_a_gradient_that_is_not_finite_stops_at_its_batch_and_keeps_the_state_before(tmp_path, whole):
    model, steps = make_model(), itertools.count()
    original = model.training_loss

    def factor():
        return np.float32(np.inf if next(steps) == 5 else 1.0)

    def spoiled(inputs, labels):
        factor_now = tf.ensure_shape(tf.numpy_function(factor, [], tf.float32), [])

        @tf.custom_gradient
        def spoil(loss):
            return tf.identity(loss), lambda upstream: upstream * factor_now

        return spoil(original(inputs, labels))

    model.training_loss = spoiled
    with pytest.raises(NotFinite, match="gradient became NaN or infinite.* at training batch 5 ") as caught:
        run_training(tmp_path, model)
    assert caught.value.step == 5
    assert_goes_on_like(whole, tmp_path)


def test_weights_that_are_not_finite_are_never_saved(tmp_path):
    model = make_model()

    def spoil():
        weights = model.get_weights()
        model.set_weights([weights[0] * np.nan, *weights[1:]])
        return {"MAP@R": 0.5}

    with pytest.raises(InvalidInput, match="NaN or infinity in weights.00000"):
        run_training(tmp_path, model, spoil, max_steps=4)
    assert not (tmp_path / "checkpoint.npz").exists()


def test_a_full_disk_stops_and_the_same_command_goes_on(tmp_path, monkeypatch, whole):
    original, saves = RunDirectory.write_checkpoint, itertools.count()

    def write(run, arrays):
        if next(saves) == 2:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        original(run, arrays)

    monkeypatch.setattr(RunDirectory, "write_checkpoint", write)
    with pytest.raises(OSError, match="No space left on device"):
        run_training(tmp_path)
    assert_goes_on_like(whole, tmp_path)


def test_jumps_of_the_clock_change_nothing(tmp_path, monkeypatch, whole):
    times = itertools.cycle([0.0, 4e9, -1e9])
    monkeypatch.setattr(time, "time", lambda: next(times))
    assert_goes_on_like(whole, tmp_path)


def test_a_checkpoint_of_another_version_says_so(tmp_path):
    state = np.array(json.dumps({"format": 2, "callbacks": [], "epochs_done": 1}))
    RunDirectory(tmp_path, {}).write_checkpoint({"state": state})
    with pytest.raises(InvalidInput, match="has version 2 with 0 parts, this version .* reads version 3 with 1"):
        run_training(tmp_path)


def test_a_checkpoint_of_another_model_is_refused(tmp_path):
    run_training(tmp_path, max_steps=2)
    with pytest.raises(InvalidInput, match="other shapes"):
        run_training(tmp_path, make_model(ProxyNCALoss(CLASSES + 1, DIM)))


def test_the_last_evaluation_period_may_be_shorter():
    assert TrainingSchedule(max_steps=7, steps_per_evaluation=2, patience=1).max_epochs == 4


def test_a_checkpoint_of_another_number_of_replicas_is_refused(tmp_path, monkeypatch):
    model = make_model()
    with pytest.raises(KeyboardInterrupt):
        run_training(tmp_path, model, Validation(model, stop_after=1))
    monkeypatch.setattr(Checkpoint, "_num_replicas", 2)
    with pytest.raises(InvalidInput, match=r"Invalid number of replicas .*received 2, expected the 1 that it was writ"):
        run_training(tmp_path)


def test_several_hosts_are_refused(tmp_path, monkeypatch):
    strategy = object.__new__(tf.distribute.MultiWorkerMirroredStrategy)
    monkeypatch.setattr(EmbeddingModel, "distribute_strategy", strategy)
    with pytest.raises(InvalidInput, match="Invalid strategy of fit: received 'MultiWorkerMirroredStrategy', expected"):
        run_training(tmp_path)


def after_warm_up(path, model, **schedule):
    """The weights by their shapes, in the checkpoint of a run that is stopped at its first evaluation."""
    with pytest.raises(KeyboardInterrupt):
        run_training(path, model, Validation(model, stop_after=0), warm_up_steps=4, max_steps=1, **schedule)
    checkpoint = RunDirectory(path, {}).read_checkpoint()
    return {value.shape: value for name, value in checkpoint.items() if name.startswith("weights.")}


@pytest.mark.parametrize("trains_all", [False, True])
def test_a_warm_up_moves_the_head_and_the_backbone_if_told_with_an_optimiser_of_its_own(tmp_path, trains_all):
    model = make_model()
    backbone, head = np.array(model.backbone.get_weights()[0]), np.array(model.head.get_weights()[0])
    by_shape = after_warm_up(tmp_path, model, warm_up_trains_all=trains_all)
    assert np.any(by_shape[backbone.shape] != backbone) == trains_all
    assert np.any(by_shape[head.shape] != head)
    assert int(np.asarray(model.optimizer.iterations)) == 2  # those of the interrupted run alone
