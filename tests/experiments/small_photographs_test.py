"""`fair_eval` on CIFAR and its collages, from the files of a release that the test makes."""

import json

import pytest

from experiments.settings.recipes import resolve
from experiments.settings.thesis_values import CIFAR
from tests.command_line import ONE_EVALUATION, run_small_here
from tests.common.data import cifar_fixture


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("cifar")
    cifar_fixture.write_cifar10_binary(folder)
    cifar_fixture.write_cifar100_binary(folder)
    return folder


@pytest.mark.slow
@pytest.mark.parametrize(
    ("dataset", "loss", "pooling", "others"),
    [("cifar_collage", "c2", "gsp", []), ("cifar10_unseen", "pnca", "gap", ["--backbone=resnet10"])],
)
def test_a_fold_is_trained_and_reported(folder, tmp_path, dataset, loss, pooling, others):
    finished = run_small_here(
        "experiments.fair_eval",
        f"--dataset={dataset}",
        f"--data_dir={folder}",
        f"--runs_dir={tmp_path}",
        f"--loss={loss}",
        f"--pooling={pooling}",
        "--budget=smoke",
        "--fold=0",
        "--noexport_model",
        *ONE_EVALUATION,
        *others,
    )
    assert finished.returncode == 0, finished.stderr
    (path,) = tmp_path.rglob("result.json")
    assert any("official" in deviation for deviation in json.loads(path.read_text())["deviations"])


def test_collages_take_the_values_of_the_thesis():
    config = resolve("cifar_collage", "c2", "gsp", "thesis", "full", {})
    assert (config.backbone, config.num_prototypes, config.transport_ratio) == ("resnet20", 64, 0.2)
    assert (config.smoothing, config.zero_shot_weight, config.learning_rate) == (10.0, 0.5, 1e-3)
    assert (config.classes_per_batch, config.samples_per_class, config.plateau_patience) == (16, 4, 5)
    assert (config.normalization, config.crop, config.image_size) == ("unit", "none", 64)


@pytest.mark.parametrize("dataset", [name for name in CIFAR if "collage" not in name])
def test_photographs_are_shifted_and_mirrored(dataset):
    assert resolve(dataset, "pnca", "gap", "thesis", "full", {}).crop == "shift_flip"
