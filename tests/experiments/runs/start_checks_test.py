import dataclasses

import numpy as np
import pytest

from common.backbones import resnet10, resnet20, save_parameters
from common.data import Dataset, Examples
from common.errors import InvalidInput
from common.retrieval.search import blocked_search
from experiments.protocols.fair import Protocol
from experiments.protocols.fair_report import FairReport
from experiments.recipes import resolve
from experiments.runs import start_checks
from experiments.runs.start_checks import check_configurations, check_hours, check_unit, checked_with_data
from experiments.runs.unit_runs import UnitRuns
from experiments.settings import build
from experiments.settings.places import Places
from tests.support.command_line import run_here

FOLDED = {"fold_batch_norm": True, "frozen_batch_norm": True}
SMALL = {"classes_per_batch": 2, "samples_per_class": 2, "image_size": 16}


def examples_of(labels):
    labels = np.array(labels)
    return Examples(labels, inputs=np.zeros((len(labels), 16, 16, 1), np.uint8))


def dataset_of(num_train=12, copies=3, test=(90, 90, 91, 91)):
    train = examples_of(np.arange(num_train).repeat(copies))
    return Dataset("glyphs", train, examples_of(test), kind="memory_images", native_size=16, channels=1)


def config_of(loss="c2", pooling="gap", method="plain", **overrides):
    return resolve("glyphs", loss, pooling, "thesis", "smoke", {**SMALL, **overrides}, method)


@pytest.fixture
def two_cores(monkeypatch):
    monkeypatch.setattr(blocked_search, "available_threads", lambda: 2)
    monkeypatch.setattr(start_checks, "device_line", lambda: "Device: CPU, 2 cores; no GPU seen (no driver)")


@pytest.mark.usefixtures("two_cores")
def test_more_than_a_day_without_a_gpu_is_refused(monkeypatch, tmp_path, capsys):
    config = resolve("cub200", "pnca", "gap", "thesis", "full", {})
    hours = start_checks.seconds_on_processor(config, 2) / 3600
    assert 5 < hours < 12
    check_hours([config] * int(24 / hours))
    message = r"about \d\d hours.*no GPU seen \(no driver\).*docs/devices.md.*--allow_cpu"
    with pytest.raises(InvalidInput, match=message):
        check_hours([config] * int(24 / hours + 1))
    head = resolve("cub200", "pnca", "gap", "thesis", "full", {"trained_from": "head"})
    own = resolve("folder", "pnca", "gap", "thesis", "full", {})
    check_hours([head, own] * 5000)
    monkeypatch.setattr(start_checks, "device_line", lambda: "Device: GPU, one")
    check_hours([config] * 50)
    check_configurations([])
    assert capsys.readouterr().err == "Device: GPU, one\n"


@pytest.mark.usefixtures("two_cores")
def test_units_are_counted_and_may_be_allowed(monkeypatch, tmp_path):
    monkeypatch.setattr(start_checks, "MOST_HOURS", 1e-9)
    config = config_of()
    units = [(config, 0, 0), (config, 1, 0)]
    with pytest.raises(InvalidInput, match="^2 runs take about 0 hours"):
        UnitRuns(dataset_of(), Places(str(tmp_path))).check(units)
    UnitRuns(dataset_of(), Places(str(tmp_path), allow_cpu=True)).check(units)


@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        ({"loss": "arcface", "margin": 2.0}, r"Invalid --margin: received 2.0, expected a number in \[0, 1.5708\]"),
        ({"pooling": "netvlad_8x16", "embedding_dim": 20}, "--embedding_dim: received 20, expected a multiple of 8"),
        ({"pooling": "gsp", "gsp_memory_size": 8, "num_prototypes": 9}, "memory_size.*at least num_prototypes = 9"),
        ({"pooling": "gsp", "solver": "quick"}, "solver"),
        ({"pooling": "gsp", "zero_shot_halves": "thirds"}, "halves"),
        ({"proxy_initializer": "he", "loss": "pnca"}, "initializer"),
        ({"backbone": "resnet_51"}, "--backbone.*resnet50"),
        ({"backbone": "bn_inception", "weights": "imagenet"}, "convert_weights --backbone=bn_inception"),
        (
            {"backbone": "resnet10", "output_stride": 16},
            "--output_stride: received 16, expected 32 with --backbone=resn",
        ),
        ({"backbone": "mobilenet_v2", "output_stride": 24}, "--output_stride: received 24, expected one of 32, 16"),
        ({"weights": "nowhere.npz"}, r"nowhere\.npz cannot be read"),
        ({**FOLDED, "backbone": "VGG16", "image_size": 32}, "--fold_batch_norm.*VGG16, which has no batch normalisat"),
        ({**FOLDED, "backbone": "token_embedding"}, "--fold_batch_norm.*token_embedding, which has no batch"),
    ],
)
def test_refused_without_data(overrides, message):
    with pytest.raises(InvalidInput, match=message):
        check_configurations([config_of(), config_of(**overrides)])


def test_an_unknown_input_mean_is_refused_before_the_network_that_takes_it():
    config = dataclasses.replace(config_of(), input_mean="mine")
    with pytest.raises(InvalidInput, match="--input_mean: received 'mine', expected one of caffe, imagenet"):
        check_configurations([config])


def test_data_weights_and_batches_are_refused_in_one_message():
    config = resolve("cub200", "pnca", "gsp", "thesis", "full", {"classes_per_batch": 76})
    with pytest.raises(InvalidInput) as without_data:
        checked_with_data([], [config], lambda: build.load_dataset("cub200", None, None, 0))
    assert problems_of(without_data) == ["--weights", "--data_dir", "--classes_per_batch"]
    assert "training classes, 75" in str(without_data.value)
    with pytest.raises(InvalidInput) as with_data:
        checked_with_data([], [config], dataset_of)
    assert {*problems_of(with_data)} >= {"--weights", "--classes_per_batch"}
    assert "training classes, 9" in str(with_data.value)


def test_batches_that_do_not_fit_are_refused_once():
    with pytest.raises(InvalidInput, match="^Invalid --classes_per_batch"):
        check_unit(config_of(method="ccp", classes_per_batch=1000), dataset_of(), 0, 0)


def test_a_batch_fits_the_smallest_fold_of_published_classes():
    """98 classes in four folds: 74, 73, 74 and 73 of them train."""
    config = resolve("cars196", "pnca", "gap", "thesis", "full", {"classes_per_batch": 74})
    with pytest.raises(InvalidInput, match="training classes, 73"):
        checked_with_data([], [config], lambda: build.load_dataset("cars196", None, None, 0))


def problems_of(error):
    return [str(problem).split()[1].rstrip(":") for problem in error.value.problems]


def test_embedded_data_are_not_drawn_for_a_command_that_is_refused():
    def refuse():
        raise InvalidInput("one thing")

    with pytest.raises(InvalidInput, match="one thing"):
        checked_with_data([refuse], [config_of()], lambda: pytest.fail("they were drawn"))


MISSING = ["--weights: ", "--data_dir: not given"]
GIVEN = ["--dataset=cub200", "--classes_per_batch=120"]
OF_COMMANDS = {
    "fair_eval": (GIVEN, [*MISSING, "classes, 75"]),
    "conventional_eval": (GIVEN, [*MISSING, "classes, 100"]),
    "revisiting_eval": ([*GIVEN, "--loss=ms", "--weights=nowhere.npz"], [*MISSING, "classes, 100"]),
    "tune": (GIVEN, [*MISSING, "classes, 75"]),
    "table": ([*GIVEN, "--id=5.1", "--run"], [*MISSING, "classes, 75"]),
    "figure": (["--id=3.2", "--budget=long"], ["--budget: received 'long'", "--data_dir: not given"]),
    "pretrain": (["--output=a/b.npz"], ["--output: received", "--data_dir: not given"]),
}


@pytest.mark.parametrize("command", OF_COMMANDS)
def test_each_command_reports_what_is_wrong_and_missing_data_together(command, tmp_path):
    if command == "tune":
        pytest.importorskip("optuna")
    arguments, expected = OF_COMMANDS[command]
    ended = run_here(f"experiments.{command}", *arguments, cwd=tmp_path)
    assert ended.returncode == 2
    assert [text for text in expected if text not in ended.stderr] == []
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("wrong", ["--loss=unknown", "--clip_norm=3"])
def test_flags_are_refused_together_with_missing_data(wrong, tmp_path):
    ended = run_here("experiments.fair_eval", "--dataset=cub200", wrong, cwd=tmp_path)
    assert wrong.partition("=")[0] in ended.stderr
    assert "--data_dir: not given" in ended.stderr


@pytest.mark.parametrize(
    ("overrides", "dataset", "message"),
    [
        ({"classes_per_batch": 10}, dataset_of(), "classes_per_batch: received 10, .*training classes, 9"),
        ({}, dataset_of(copies=1), "classes of one image alone.*to validate on"),
        ({"num_folds": 12}, dataset_of(), "received 1, expected two .* on in fold 0 of 12.*--num_folds"),
        (
            {"loss": "margin+groups", "samples_per_class": 3, "num_groups": 28},
            dataset_of(),
            "--num_groups: received 28, expected 2 to 27, the images that a run learns from. Give fewer",
        ),
        ({"num_folds": 2}, dataset_of(3), "received 1, expected two or more to validate on in fold 0 of 2"),
        ({"num_folds": 13}, dataset_of(), "num_folds: received 13"),
        ({}, dataset_of(test=(90, 90, 90)), "received 1, expected two or more to test on. Add classes"),
        ({}, dataset_of(test=(90, 91, 92)), "classes of one image alone.*to test on"),
        ({"crop": "thesis"}, dataset_of(), "--crop: received 'thesis', expected one of shift"),
        ({"backbone": "token_embedding"}, dataset_of(), "token_embedding cannot read glyphs"),
        ({"method": "ccp", "pool_size": 2, "proxies_per_class": 3}, dataset_of(), "pool_size"),
    ],
)
def test_refused_by_the_data(overrides, dataset, message, tmp_path, monkeypatch):
    def fingerprint(dataset):
        raise AssertionError("images would be read for it")

    monkeypatch.setattr(build, "data_fingerprint", fingerprint)
    protocol = Protocol(FairReport, dataset, [(config_of(**overrides),)], Places(str(tmp_path / "runs")), repeats=1)
    with pytest.raises(InvalidInput, match=message):
        protocol.run()
    assert list(tmp_path.iterdir()) == []


def test_weights_of_another_network_are_refused_with_every_misfit(tmp_path):
    save_parameters(resnet20(1), tmp_path / "resnet20.npz")
    config = config_of(weights=str(tmp_path / "resnet20.npz"))
    with pytest.raises(InvalidInput, match=r"the \d+ parameters of resnet10.*unknown"):
        check_unit(config, dataset_of(), 0, 0)
    save_parameters(resnet10(1), tmp_path / "resnet10.npz")
    check_unit(dataclasses.replace(config, weights=str(tmp_path / "resnet10.npz")), dataset_of(), 0, 0)
    save_parameters(resnet10(1, width=8), tmp_path / "resnet10.npz")
    with pytest.raises(InvalidInput, match="wrong shape"):
        check_unit(dataclasses.replace(config, weights=str(tmp_path / "resnet10.npz")), dataset_of(), 0, 0)


def test_all_units_are_checked_before_the_first_is_trained(tmp_path):
    configs = [config_of(), config_of(classes_per_batch=10)]
    protocol = Protocol(
        FairReport, dataset_of(), [(config,) for config in configs], Places(str(tmp_path / "runs")), repeats=1
    )
    with pytest.raises(InvalidInput, match="classes_per_batch"):
        protocol.run()
    assert list(tmp_path.iterdir()) == []


def test_a_finished_unit_needs_nothing_any_more(tmp_path, monkeypatch):
    config = config_of()
    protocol = Protocol(FairReport, dataset_of(), [(config,)], Places(str(tmp_path)), repeats=1)
    for fold in range(4):
        path = protocol.runs.unit_dir(config, fold, 0)
        path.mkdir(parents=True)
        (path / "result.json").write_text('{"status": "finished"}')
    # The files beside the result are not looked at.
    monkeypatch.setattr("experiments.runs.unit_runs._mend", lambda *run: None)
    monkeypatch.setattr("experiments.runs.unit_runs.check_unit", lambda *unit: pytest.fail("it was checked"))
    protocol.run()
