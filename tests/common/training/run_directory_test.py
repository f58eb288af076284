"""Run directories: atomic files, one configuration, one process."""

import json
import subprocess
import sys

import numpy as np
import pytest

from common.ops.checks import InvalidInput
from common.training.run_directory import (
    RunDirectory,
    read_arrays,
    read_json,
    write_arrays,
    write_atomically,
    write_json,
)


def test_a_failed_write_leaves_the_old_file_and_no_temporary_one(tmp_path):
    path = tmp_path / "value.json"
    write_json(path, {"a": 1})

    def fail(file):
        file.write(b"half")
        raise OSError(28, "No space left on device")

    with pytest.raises(OSError, match="No space"):
        write_atomically(path, fail)
    assert read_json(path) == {"a": 1}
    assert [entry.name for entry in tmp_path.iterdir()] == ["value.json"]


def test_nan_is_refused(tmp_path):
    with pytest.raises(ValueError, match="JSON compliant"):
        write_json(tmp_path / "value.json", {"a": float("nan")})


def test_arrays_round_trip_without_pickle(tmp_path):
    arrays = {"x": np.arange(6.0).reshape(2, 3), "text": np.array("héllo")}
    write_arrays(tmp_path / "a.npz", arrays)
    loaded = read_arrays(tmp_path / "a.npz")
    assert loaded.keys() == arrays.keys()
    np.testing.assert_array_equal(loaded["x"], arrays["x"])
    assert str(loaded["text"]) == "héllo"


def test_a_damaged_archive_is_named(tmp_path):
    (tmp_path / "a.npz").write_bytes(b"PK\x03\x04 not an archive")
    with pytest.raises(InvalidInput, match=r"a\.npz cannot be read"):
        read_arrays(tmp_path / "a.npz")


def test_another_configuration_is_refused_and_named(tmp_path):
    RunDirectory(tmp_path / "run", {"margin": 0.5, "loss": "c1"})
    RunDirectory(tmp_path / "run", {"margin": 0.5, "loss": "c1"})
    with pytest.raises(InvalidInput, match="differs in: margin"):
        RunDirectory(tmp_path / "run", {"margin": 0.6, "loss": "c1"})


def test_a_second_process_is_refused_while_the_first_works(tmp_path):
    run = RunDirectory(tmp_path / "run", {})
    program = (
        "from common.training.run_directory import RunDirectory\n"
        f"run = RunDirectory({str(tmp_path / 'run')!r}, {{}})\n"
        "try:\n"
        "    with run.locked(): print('entered')\n"
        "except ValueError as error: print('refused:', error)\n"
    )
    command = [sys.executable, "-c", program]
    with run.locked():
        inside = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    outside = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert inside.startswith("refused: Another process is working on")
    assert outside.strip() == "entered"


def test_a_truncated_result_counts_as_unfinished(tmp_path):
    run = RunDirectory(tmp_path / "run", {})
    run.write_checkpoint({"a": np.zeros(3)})
    run.write_result({"test": {"MAP@R": 0.5}}, {"queries": np.zeros((2, 3))}, [np.ones(2), np.zeros(1)])
    assert [weight.tolist() for weight in run.read_weights()] == [[1.0, 1.0], [0.0]]
    assert run.read_result()["test"] == {"MAP@R": 0.5}
    assert run.read_checkpoint() is None
    text = (run.path / "result.json").read_text()
    (run.path / "result.json").write_text(text[: len(text) // 2])
    assert run.read_result() is None


def test_metrics_after_the_checkpoint_are_dropped(tmp_path):
    run = RunDirectory(tmp_path / "run", {})
    for step in (10, 20, 30):
        run.append_metrics({"step": step, "loss": 1.0})
    with open(run.path / "metrics.jsonl", "a") as file:
        file.write('{"step": 40, "lo')
    run.drop_metrics_after(20)
    lines = (run.path / "metrics.jsonl").read_text().splitlines()
    assert [json.loads(line)["step"] for line in lines] == [10, 20]


def test_weights_of_an_unfinished_run_are_asked_for_in_vain(tmp_path):
    with pytest.raises(InvalidInput, match=r"weights\.npz is missing: the run has not finished"):
        RunDirectory(tmp_path / "run", {}).read_weights()
