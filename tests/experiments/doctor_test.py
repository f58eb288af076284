import os
import re

import common
from common.errors import InvalidInput
from experiments.preparation import machine
from tests.setup_test import EXTRAS
from tests.support.command_line import run_here


def doctor(tmp_path):
    return run_here("experiments.doctor", f"--cache_dir={tmp_path}/cache", f"--runs_dir={tmp_path}/runs")


def test_a_sound_machine(tmp_path):
    finished = doctor(tmp_path)
    assert finished.returncode == 0, finished.stderr
    found = dict(re.findall(r"^(\S.*?) {2,}(.*)$", finished.stdout, re.MULTILINE))
    assert found["deep-metric-learning"].startswith(common.__version__)
    assert {"Python", "TensorFlow", "Keras", "NumPy", "GPU", "processor", "extras installed"} <= found.keys()
    assert "(not there yet)" in " ".join(finished.stdout.split())
    assert max(map(len, finished.stdout.splitlines())) <= 100
    assert finished.stdout.endswith("Training can run.\n")
    assert os.listdir(tmp_path) == []


def test_a_folder_that_cannot_be_written(tmp_path, monkeypatch):
    def refuse(dir):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(machine.tempfile, "TemporaryFile", refuse)
    finished = doctor(tmp_path)
    assert finished.returncode == 1
    assert "Problem: runs folder: " in finished.stdout
    assert "No space left on device" in finished.stdout
    assert "Training can run" not in finished.stdout


def test_a_file_in_the_place_of_a_folder(tmp_path):
    (tmp_path / "runs").write_text("")
    assert doctor(tmp_path).returncode == 1


def test_a_broken_tensorflow(tmp_path, monkeypatch):
    def fail():
        raise ImportError("libcudart.so is missing")

    monkeypatch.setattr(machine, "import_tensorflow", fail)
    finished = doctor(tmp_path)
    assert finished.returncode == 1
    assert "TensorFlow does not work (ImportError: libcudart.so is missing)" in " ".join(finished.stdout.split())


def test_a_keras_that_layers_do_not_run_on(tmp_path, monkeypatch):
    def refuse(keras):
        raise InvalidInput(f"{keras.__name__} is too old")

    monkeypatch.setattr(machine, "check_keras", refuse)
    finished = doctor(tmp_path)
    assert finished.returncode == 1
    assert "is too old" in finished.stdout


def test_a_keras_that_runs_code_of_models(tmp_path, monkeypatch):
    monkeypatch.setattr("common.deployment.embedder.FIRST_SAFE_KERAS", (99, 0))
    finished = doctor(tmp_path)
    assert finished.returncode == 0
    assert "CVE-2025-1550" in finished.stdout
    monkeypatch.setattr("common.deployment.embedder.FIRST_SAFE_KERAS", (2, 0))
    assert "CVE" not in doctor(tmp_path).stdout


def test_reasons_of_no_gpu(monkeypatch, tmp_path):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "-1")
    assert "CUDA_VISIBLE_DEVICES='-1'" in machine.reason_of_no_gpu(True)
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES")
    assert machine.reason_of_no_gpu(False).startswith("this TensorFlow is built without CUDA")
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "7")
    assert (
        machine.reason_of_no_gpu(False) == "CUDA_VISIBLE_DEVICES='7' is set, but this TensorFlow is built without CUDA"
    )
    monkeypatch.setattr(machine, "GPU_DRIVERS", (str(tmp_path),))
    assert "libraries cannot be loaded" in machine.reason_of_no_gpu(True)
    assert machine.reason_of_no_gpu(True).endswith("or it names none that this machine has")
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES")
    monkeypatch.setattr(machine, "GPU_DRIVERS", (str(tmp_path / "none"),))
    assert "driver" in machine.reason_of_no_gpu(True)
    monkeypatch.setattr(machine, "GPU_DRIVERS", (str(tmp_path),))
    assert "CUDA libraries" in machine.reason_of_no_gpu(True)


def test_extras_are_those_of_the_package():
    assert machine.EXTRAS.keys() <= EXTRAS.keys()
