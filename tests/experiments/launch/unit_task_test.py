import fcntl

import pytest

from common.errors import InvalidInput
from experiments.launch.unit_task import Failure, check_no_failures, last_words
from experiments.plans.launched_cells import RunTask


def test_a_command_is_read_as_a_shell_reads_it(tmp_path):
    task = RunTask("a", "python -m experiments.fair_eval '--runs_dir=my runs' --fold=1", tmp_path)
    assert task.arguments == ("-m", "experiments.fair_eval", "--runs_dir=my runs", "--fold=1")


def test_a_result_and_a_lock_are_seen(small_task):
    task = small_task("fold0-repeat0")
    assert not task.is_finished()
    assert not task.is_held()
    assert not task.folder.exists(), "a look makes nothing"
    task.folder.mkdir(parents=True)
    with open(task.folder / "lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        assert task.is_held()
    assert not task.is_held()
    (task.folder / "result.json").write_text('{"status": "finished"}')
    assert task.is_finished()
    assert task.log_name == "method-0123-fold0-repeat0.log"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("one\nerror: no data\ntail\n", "no data"),
        ("error: first\nerror: second\n", "second"),
        ("0%\r50%\r100%\n", "100%"),
        ("ValueError: shape\n\n", "ValueError: shape"),
        ("", "its log is empty"),
        (None, "its log is empty"),
    ],
)
def test_the_last_words_of_a_log(text, expected, tmp_path):
    log = tmp_path / "log"
    if text is not None:
        log.write_text(text)
    assert last_words(log) == expected


def test_failures_are_named_with_reason_log_and_command(small_task, tmp_path):
    check_no_failures([])
    tasks = [small_task("fold0-repeat0"), small_task("fold1-repeat0")]
    with pytest.raises(InvalidInput, match="1 unit has failed") as one:
        check_no_failures([Failure(tasks[0], "exit code 2: no data", tmp_path / "log")])
    for phrase in ("fold0-repeat0: exit code 2: no data", str(tmp_path / "log"), tasks[0].command, "same command"):
        assert phrase in str(one.value)
    with pytest.raises(InvalidInput, match="2 units have failed"):
        check_no_failures([Failure(task, "x", tmp_path) for task in tasks])
