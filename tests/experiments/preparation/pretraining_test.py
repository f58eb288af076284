import json

import numpy as np
import pytest

from common.backbones import read_arrays, resnet10
from common.data import Dataset, Examples, collage_training_classes
from common.errors import InvalidInput
from common.records import RunDirectory
from experiments.preparation import pretraining
from experiments.preparation.pretrain_settings import PretrainSettings
from experiments.preparation.pretraining import load_images, pretrain
from tests.common.data import cifar_fixture as fixture
from tests.experiments.tiny_network import tiny_network
from tests.support.command_line import done_here, done_small_here

SETTINGS = PretrainSettings(
    backbone="resnet10", max_steps=12, steps_per_evaluation=4, classes_per_batch=4, samples_per_class=4
)


def brightness(per_class, seed):
    labels = np.repeat(np.arange(4), per_class)
    noise = np.random.default_rng(seed).normal(0, 8, (len(labels), 16, 16, 3))
    return Examples(labels, np.clip(60 * labels[:, None, None, None] + 30 + noise, 0, 255).astype(np.uint8))


DATASET = Dataset("brightness", brightness(8, 0), brightness(6, 1))


@pytest.mark.slow
def test_the_command_writes_what_weights_reads_and_only_reads_a_finished_run(tmp_path):
    fixture.write_cifar100_binary(tmp_path)
    output = tmp_path / "pretrained.npz"
    arguments = (
        "--budget=smoke",
        "--backbone=resnet10",
        f"--data_dir={tmp_path}",
        f"--output={output}",
        f"--runs_dir={tmp_path / 'runs'}",
    )
    finished = done_small_here("experiments.pretrain", *arguments)
    steps = sorted((tmp_path / "runs").rglob("metrics.jsonl"))[0].read_text().count("\n")
    assert "100 classes" in finished.stdout
    assert "not the official data: cifar100 train images: 200 found" in finished.stdout
    first = read_arrays(output)
    assert resnet10(3, weights=str(output)).output_shape[-1] == 64
    assert np.abs(first["bn1.running_mean"]).max() > 0  # it has learnt

    output.unlink()
    done_here("experiments.pretrain", *arguments)
    assert sorted((tmp_path / "runs").rglob("metrics.jsonl"))[0].read_text().count("\n") == steps > 0
    np.testing.assert_array_equal(read_arrays(output)["conv1.weight"], first["conv1.weight"])


@pytest.mark.usefixtures("functions_run_eagerly")
def test_it_learns_and_goes_on_exactly(tmp_path, monkeypatch):
    monkeypatch.setattr(pretraining.backbones, "resnet10", tiny_network)
    whole = RunDirectory(tmp_path / "whole", {})
    result = pretrain(SETTINGS, DATASET, whole, checkpoint_seconds=0)
    assert result["steps"] == 12
    losses = [json.loads(line)["loss"] for line in (whole.path / "metrics.jsonl").read_text().splitlines()]
    assert len(losses) == 3
    assert losses[-1] < losses[0]

    measured, looks = pretraining.accuracy, []

    def interrupted(model, examples):
        looks.append(1)
        if len(looks) == 2:
            raise KeyboardInterrupt
        return measured(model, examples)

    monkeypatch.setattr(pretraining, "accuracy", interrupted)
    halves = RunDirectory(tmp_path / "halves", {})
    with pytest.raises(KeyboardInterrupt):
        pretrain(SETTINGS, DATASET, halves, checkpoint_seconds=0)
    cost = {"train_seconds": 0, "processor_seconds": 0}
    assert {**pretrain(SETTINGS, DATASET, halves, checkpoint_seconds=0), **cost} == {**result, **cost}
    expected, found = (read_arrays(run.path / "backbone.npz") for run in (whole, halves))
    for name, value in expected.items():
        np.testing.assert_array_equal(found[name], value)


def test_classes_of_training_collages_alone(tmp_path):
    fixture.write_cifar100_binary(tmp_path)
    chosen = collage_training_classes(str(tmp_path))
    assert len(chosen) == 40
    assert (np.bincount(fixture.COARSE_OF_FINE[chosen]) == 2).all()
    dataset = load_images("cifar100", str(tmp_path), "collage_training")
    assert (dataset.train.num_classes, dataset.test.num_classes) == (40, 40)
    assert dataset.class_names == tuple(fixture.FINE_NAMES[label] for label in chosen)
    assert set(np.unique(dataset.train.inputs[..., 0])) == set(chosen)  # red is the class
    assert len(load_images("cifar100", str(tmp_path), "all").class_names) == 100


def test_the_loss_is_the_cross_entropy():
    logits, labels = np.array([[1.0, 2.0, 0.5], [0.0, -1.0, 3.0]], np.float32), np.array([1, 0])
    rows = [np.log(np.exp(row).sum()) - row[label] for row, label in zip(logits.astype(float), labels)]
    assert float(pretraining.SoftmaxCrossEntropyLoss()(logits, labels)) == pytest.approx(np.mean(rows), rel=1e-6)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("cifar10", "x", "all"), "--data_dir"),
        (("cifar10", "x", "collage_training"), "Only CIFAR-100"),
        (("mnist", "x", "all"), "cifar100, cifar10, glyphs_latin"),
        (("glyphs_latin", None, "collage_training"), "Only CIFAR-100"),
    ],
)
def test_wrong_data_are_refused(arguments, message):
    with pytest.raises(InvalidInput, match=message):
        load_images(*arguments)
