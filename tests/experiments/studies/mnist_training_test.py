import dataclasses
import json
from unittest import mock

import numpy as np
import pytest
import tensorflow as tf

from common.data import Dataset, Examples
from common.errors import InvalidInput
from common.files import read_arrays
from common.records import RunDirectory
from experiments.studies import mnist_training
from experiments.studies.mnist import MnistSettings
from experiments.studies.mnist_training import MnistTraining, hold_out

keras = tf.keras
pytestmark = pytest.mark.usefixtures("functions_run_eagerly")
DIGITS = 10
SETTINGS = MnistSettings(
    num_problems=2,
    projection_patience=1,
    steps_per_evaluation=2,
    max_steps=40,
    validation_per_class=3,
    samples_per_class=2,
    learning_rate=0.01,
    start_steps=0,
)


def examples(per_class, seed):
    labels = np.random.default_rng(seed).permutation(np.repeat(np.arange(DIGITS), per_class))
    noise = np.random.default_rng(seed).normal(0, 25, (len(labels), 8, 8, 1))
    return Examples(labels, np.clip(20 * labels[:, None, None, None] + 40 + noise, 0, 255).astype(np.uint8))


DATASET = Dataset("digits", examples(25, 0), examples(20, 1))


def tiny(input_channels):
    layers = [keras.Input((None, None, input_channels)), keras.layers.Rescaling(1 / 128)]
    layers += [keras.layers.Conv2D(8, 3), keras.layers.BatchNormalization(), keras.layers.ReLU()]
    return keras.Sequential(layers)


@pytest.fixture(autouse=True)
def tiny_network(monkeypatch):
    monkeypatch.setattr(mnist_training.backbones, "resnet_v2_20", tiny)


def train(path, **changes):
    settings = dataclasses.replace(SETTINGS, **changes)
    run = RunDirectory(path, settings.as_dict())
    return run, MnistTraining(settings, DATASET, run).train(checkpoint_seconds=0.0)


def kept_problems(run):
    return [read_arrays(path) for path in sorted(run.path.glob("problem*.npz"))]


@pytest.fixture(scope="module", params=["proxies", pytest.param("samples", marks=pytest.mark.release)])
def whole(request, tmp_path_factory, functions_run_eagerly):
    """Anchors, and the run and the result of a training that nothing disturbs."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(mnist_training.backbones, "resnet_v2_20", tiny)
        return request.param, *train(tmp_path_factory.mktemp("whole"), anchors=request.param)


def test_training_ends_with_the_last_problem_and_keeps_every_border(whole):
    _, run, result = whole
    assert [problem["index"] for problem in result["problems"]] == [0, 1, 2]
    assert result["problems"][2]["steps"] == 0
    assert result["steps"] == sum(problem["steps"] for problem in result["problems"]) < SETTINGS.max_steps
    borders = kept_problems(run)
    assert len(borders) == 3
    assert "converged" not in borders[0]
    for border in borders:
        assert border["queries"].shape == (200, 2)
        assert border["chosen"].shape == (DIGITS, 4, 2)
        assert np.linalg.norm(border["queries"], axis=1).max() <= 1 + 1e-6
    for border in borders[1:]:
        assert border["converged"].shape == (DIGITS, 4, 2)
        assert np.abs(border["converged"] - border["chosen"]).max() > 1e-3


def test_the_in_batch_term_changes_the_loss(tmp_path):
    losses = []
    for weight in (0.0, 1.0):
        run, _ = train(tmp_path / str(weight), in_batch_weight=weight, max_steps=2)
        losses.append(json.loads((run.path / "metrics.jsonl").read_text())["loss"])
    assert losses[1] > 1.2 * losses[0]


def test_the_first_problem_waits_for_a_network_that_has_seen_digits(tmp_path):
    _, result = train(tmp_path, start_steps=3, max_steps=12)
    start = result["problems"][0]["start_step"]
    assert start == -(-3 // SETTINGS.steps_per_evaluation) * SETTINGS.steps_per_evaluation
    _, result = train(tmp_path / "samples", start_steps=3, anchors="samples", max_steps=4)
    assert result["problems"][0]["start_step"] == 0
    with pytest.raises(InvalidInput, match="--ccp_start"):
        MnistSettings(start_steps=-1)


def test_fixed_proxies_are_never_replaced(tmp_path):
    run, result = train(tmp_path, anchors="fixed proxies", max_steps=12)
    assert result["steps"] == 12
    assert [problem["steps"] for problem in result["problems"]] == [12]
    assert len(kept_problems(run)) == 1


@pytest.mark.slow
def test_a_run_that_is_killed_anywhere_goes_on_bit_for_bit(whole, tmp_path, monkeypatch):
    anchors, whole, expected = whole
    evaluate = mnist_training.retrieval.evaluate_retrieval
    num_evaluations = expected["steps"] // SETTINGS.steps_per_evaluation
    # The last call is the test's: killed when training is over.
    for allowed in (2, num_evaluations - 2) if anchors == "proxies" else (2,):
        killed = mock.Mock(side_effect=[*([mock.DEFAULT] * allowed), KeyboardInterrupt], wraps=evaluate)
        monkeypatch.setattr(mnist_training.retrieval, "evaluate_retrieval", killed)
        with pytest.raises(KeyboardInterrupt):
            train(tmp_path / "parts", anchors=anchors)
    monkeypatch.setattr(mnist_training.retrieval, "evaluate_retrieval", evaluate)
    parts, result = train(tmp_path / "parts", anchors=anchors)
    times = {"train_seconds": 0, "processor_seconds": 0}
    assert {**result, **times} == {**expected, **times}
    for one, other in zip(kept_problems(whole), kept_problems(parts)):
        for name, array in one.items():
            np.testing.assert_array_equal(array, other[name])
    for one, other in zip(whole.read_weights(), parts.read_weights()):
        np.testing.assert_array_equal(one, other)


def test_validation_is_set_aside_from_every_class():
    training, validation = hold_out(DATASET.train, 3, seed=1)
    assert np.bincount(validation.labels).tolist() == [3] * DIGITS
    assert np.bincount(training.labels).tolist() == [22] * DIGITS
    together = np.concatenate([training.inputs, validation.inputs]).reshape(len(DATASET.train), -1)
    assert sorted(map(tuple, together)) == sorted(map(tuple, DATASET.train.inputs.reshape(len(DATASET.train), -1)))
    assert np.any(hold_out(DATASET.train, 3, seed=2)[1].inputs != validation.inputs)
    with pytest.raises(InvalidInput, match="received 24, expected a number from 2 to 23"):
        hold_out(DATASET.train, 24, seed=1)
