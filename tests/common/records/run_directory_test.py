import errno
import json
import os

import numpy as np
import pytest

from common.errors import InvalidInput
from common.files import DamagedFile, read_arrays, read_json, write_arrays, write_json
from common.records.run_directory import RunDirectory
from tests.common.files.huge_array import state_huge_array
from tests.support.command_line import run_program


def test_another_configuration_is_refused_and_a_damaged_one_not_replaced(tmp_path):
    RunDirectory(tmp_path, {"margin": 0.5, "loss": "c1"})
    RunDirectory(tmp_path, {"margin": 0.5, "loss": "c1"})
    with pytest.raises(InvalidInput, match="differs in: margin"):
        RunDirectory(tmp_path, {"margin": 0.6, "loss": "c1"})
    text = (tmp_path / "config.json").read_text()
    for damaged in (text[:-3], ""):
        (tmp_path / "config.json").write_text(damaged)
        with pytest.raises(InvalidInput, match=r"config\.json is damaged"):
            RunDirectory(tmp_path, {"loss": "c2"})
        assert (tmp_path / "config.json").read_text() == damaged


def test_a_second_process_is_refused_while_the_first_works(tmp_path):
    run = RunDirectory(tmp_path / "run", {})
    program = (
        "from common.records.run_directory import RunDirectory\n"
        f"run = RunDirectory({str(tmp_path / 'run')!r}, {{}})\n"
        "try:\n"
        "    with run.locked(): print('entered')\n"
        "except ValueError as error: print('refused:', error)\n"
    )
    with run.locked():
        inside = run_program(["-c", program]).stdout
    outside = run_program(["-c", program]).stdout
    assert inside.startswith("refused: Another process is working on")
    assert outside.strip() == "entered"


def test_a_truncated_result_is_read_from_its_copy_and_without_one_counts_as_unfinished(tmp_path):
    run = RunDirectory(tmp_path / "run", {})
    for _ in range(2):
        run.write_checkpoint({"a": np.zeros(3)})
    run.write_result({"test": {"MAP@R": 0.5}}, {"queries": np.zeros((2, 3))}, [np.ones(2), np.zeros(1)])
    assert [weight.tolist() for weight in run.read_weights()] == [[1.0, 1.0], [0.0]]
    assert run.read_result()["test"] == {"MAP@R": 0.5}
    assert run.read_checkpoint() is None
    assert list(run.path.glob("checkpoint*")) == []
    text = (run.path / "result.json").read_text()
    (run.path / "result.json").write_text(text[: len(text) // 2])
    with pytest.warns(UserWarning, match="written again from result.copy.json"):
        assert run.read_result()["test"] == {"MAP@R": 0.5}
    assert (run.path / "result.json").read_text() == text
    for name in ("result.json", "result.copy.json"):
        (run.path / name).write_text(text[:-20])
    assert run.read_result() is None
    (run.path / "result.json").unlink()  # somebody wants it run again
    (run.path / "result.copy.json").write_text(text)
    assert run.read_result() is None


def test_a_damaged_checkpoint_gives_way_to_the_one_before(tmp_path):
    run = RunDirectory(tmp_path, {})
    current, previous = tmp_path / "checkpoint.npz", tmp_path / "checkpoint.previous.npz"
    message = r"checkpoint\.npz cannot be read .*Going on from checkpoint\.previous\.npz"
    for value in (1.0, 2.0, 3.0):
        run.write_checkpoint({"a": np.full(100000, value)})
    assert run.read_checkpoint()["a"][0] == 3.0
    content = bytearray(current.read_bytes())
    content[content.index(np.full(50, 3.0).tobytes()) + 100] ^= 4
    current.write_bytes(content)
    with pytest.warns(UserWarning, match=message):
        assert run.read_checkpoint()["a"][0] == 2.0
    assert (tmp_path / "checkpoint.damaged.npz").read_bytes() == content
    run.write_checkpoint({"a": np.full(100000, 4.0)})
    assert (read_arrays(current)["a"][0], read_arrays(previous)["a"][0]) == (4.0, 2.0)
    state_huge_array(current)
    with pytest.warns(UserWarning, match=message):
        assert run.read_checkpoint()["a"][0] == 2.0
    assert not current.exists()  # as a process leaves it that is killed between two renames
    assert run.read_checkpoint()["a"][0] == 2.0
    current.write_bytes(content)
    previous.write_bytes(previous.read_bytes()[:-30])
    with pytest.raises(InvalidInput, match=r"No checkpoint in .* is whole \(checkpoint\.npz and checkpoint\.previous"):
        run.read_checkpoint()


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EROFS])
def test_a_checkpoint_that_cannot_be_written_leaves_the_last_two(tmp_path, monkeypatch, number):
    run = RunDirectory(tmp_path, {})
    for value in (1.0, 2.0):
        run.write_checkpoint({"a": np.full(3, value)})
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}

    def fail(*arguments, **settings):
        raise OSError(number, os.strerror(number))

    broken = "common.files.atomic.os.fsync" if number == errno.ENOSPC else "pathlib.Path.open"
    with monkeypatch.context() as patch:
        patch.setattr(broken, fail)
        with pytest.raises(OSError, match=os.strerror(number)):
            run.write_checkpoint({"a": np.full(3, 3.0)})
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before


def test_files_of_another_version_are_refused_and_those_without_one_are_read(tmp_path):
    run = RunDirectory(tmp_path, {})
    np.savez(tmp_path / "checkpoint.npz", a=np.ones(2))
    np.testing.assert_array_equal(run.read_checkpoint()["a"], 1.0)
    np.savez(tmp_path / "checkpoint.npz", a=np.ones(2), format_version=np.array(7))
    with pytest.raises(InvalidInput, match=r"checkpoint\.npz has format 7, this version of the code reads 1"):
        run.read_checkpoint()
    run.write_result({}, {}, [])
    result = read_json(tmp_path / "result.json")
    write_json(tmp_path / "result.json", {**result, "format": 7})
    with pytest.raises(InvalidInput, match=r"result\.json has format 7"):
        run.read_result()


def test_lost_weights_of_a_finished_run_are_told_with_the_cure(tmp_path):
    run = RunDirectory(tmp_path / "run", {})
    with pytest.raises(InvalidInput, match=r"weights\.npz is missing: the run has not finished"):
        run.read_weights()
    run.write_result({}, {}, [np.ones(300)])
    cure = "Delete .*run and repeat the command that trained this run: it trains it again"
    path, content = run.path / "weights.npz", (run.path / "weights.npz").read_bytes()
    for weight in (np.array([1.0, np.nan]), np.array([np.inf]), np.array("text")):
        write_arrays(path, {"00000": weight})
        with pytest.raises(DamagedFile, match=rf"weights\.npz holds NaN, infinity or text: it is damaged\. {cure}"):
            run.read_weights()
    path.write_bytes(content[:-40])
    with pytest.raises(DamagedFile, match=rf"weights\.npz cannot be read .*it is damaged\. {cure}"):
        run.read_weights()
    path.unlink()
    with pytest.raises(DamagedFile, match=rf"weights\.npz is missing, although the run has finished\. {cure}"):
        run.read_weights()


def test_metrics_after_the_checkpoint_and_what_a_killed_process_left_half_written_are_dropped(tmp_path):
    run = RunDirectory(tmp_path, {})
    for step in (10, 20, 30):
        run.append_metrics({"step": step, "loss": 1.0})
    with open(run.path / "metrics.jsonl", "a") as file:
        file.write('{"loss": 2.0}\n{"step": 40, "lo')
    run.drop_metrics_after(20)
    lines = (run.path / "metrics.jsonl").read_text().splitlines()
    assert [json.loads(line)["step"] for line in lines] == [10, 20]
    for name in (".checkpoint.npz.abc.tmp", ".config.json.abc.tmp"):
        (tmp_path / name).write_text("half")
    with run.locked():
        assert not (tmp_path / ".checkpoint.npz.abc.tmp").exists()
        assert (tmp_path / ".config.json.abc.tmp").exists()  # perhaps of a process that is about to be refused


def test_a_folder_in_which_nothing_was_done_is_removed_unless_it_has_measurements_or_neighbours(tmp_path):
    begun, second = (RunDirectory(tmp_path / "method" / name, {}) for name in ("begun", "second"))
    (begun.path / "untrained.json").write_text("{}")
    for run in (begun, second):
        with run.locked():
            run.remove_if_begun_only()
    assert [path.name for path in (tmp_path / "method").iterdir()] == ["begun"]
    assert (begun.path / "config.json").exists()
    alone = RunDirectory(tmp_path / "other" / "run", {})
    alone.remove_if_begun_only()
    assert [path.name for path in tmp_path.iterdir()] == ["method"]
