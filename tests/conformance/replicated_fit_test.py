"""Whole models on two virtual devices and on two hosts: after 20 steps the weights of one device."""

import json

import numpy as np
import pytest

from common.training.devices import IS_KERAS_3, KERAS_VERSION
from tests.support.command_line import run_program, start_program
from tests.support.mlflow_server import free_port

PROGRAM = ["-m", "tests.conformance.replicated_fit"]
ALONE = pytest.mark.release  # its loss, or its model, is in one of the others
NAMES = ["embedding_model"]  # a `MetricModel` trains in parts below
NAMES += [
    pytest.param(name, marks=ALONE) for name in ("proxies_and_memory", "chance_constrained", "pooled_with_zero_shot")
]
SHORT = ("memory_in_parts", "ccp_in_parts", "gsp")
OLD = (3, 0) <= KERAS_VERSION < (3, 10)
pytestmark = [pytest.mark.slow, pytest.mark.skipif(OLD, reason="replicas need Keras 3.10 or newer, or 2.15")]


@pytest.fixture(scope="module")
def differences(request, tmp_path_factory):
    """Of each model that a test of this session asks for."""
    of_module = [item for item in request.session.items if item.path == request.path]
    asked = [item for item in of_module if "differences" in item.fixturenames]
    folder = tmp_path_factory.mktemp("mirrored")
    names = [item.callspec.params["name"] for item in asked]
    finished = run_program([*PROGRAM, "mirrored", str(folder), *names], timeout=900)
    assert finished.returncode == 0, finished.stderr
    return json.loads((folder / "differences.json").read_text())


@pytest.mark.parametrize("name", NAMES)
def test_two_replicas_train_like_one_device(differences, name):
    assert differences[name] < 1e-4


@pytest.mark.parametrize("name", ["ccp_in_parts", *(pytest.param(name, marks=ALONE) for name in SHORT[::2])])
def test_after_five_steps_they_differ_by_rounding_alone(differences, name):
    assert differences[name] < 1e-5


def weights_in(path):
    with np.load(path) as arrays:
        return [arrays[name] for name in arrays.files]


def on_two_hosts(action, folder, names, monkeypatch):
    """The exit codes of two processes."""
    workers = [f"127.0.0.1:{free_port()}" for _ in range(2)]
    processes = []
    for index in range(2):
        task = {"type": "worker", "index": index}
        monkeypatch.setenv("HOSTS", json.dumps({"cluster": {"worker": workers}, "task": task}))
        with (folder / f"{action}{index}.txt").open("w") as errors:
            processes.append(start_program([*PROGRAM, action, str(folder), *names], stderr=errors))
    return [process.wait(900) for process in processes]


@pytest.mark.skipif(not IS_KERAS_3, reason="several hosts are tried on Keras 3 alone")
@pytest.mark.parametrize("names", [SHORT[:1], pytest.param(SHORT, marks=pytest.mark.release)], ids=["one", "all"])
def test_two_hosts_train_like_one_device_and_resume_after_one_has_failed(tmp_path, monkeypatch, names):
    """The failing ones are of the first name; all are compared with a device that trains without a stop."""
    assert on_two_hosts("failing", tmp_path, names[:1], monkeypatch) == [1, -9]
    assert "Another host has failed or cannot be reached" in (tmp_path / "failing0.txt").read_text()
    assert (tmp_path / "shared" / names[0] / "checkpoint.npz").exists()
    assert run_program([*PROGRAM, "one", str(tmp_path), *names], timeout=900).returncode == 0
    assert on_two_hosts("worker", tmp_path, names, monkeypatch) == [0, 0]
    for name in names:
        expected = weights_in(tmp_path / f"one-{name}.npz")
        for index in range(2):
            found = weights_in(tmp_path / f"{index}-{name}.npz")
            differences = [np.max(np.abs(one - other)) for one, other in zip(found, expected, strict=True)]
            assert max(differences) < 1e-5
