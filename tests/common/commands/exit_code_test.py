import errno
import os
import re
import signal
import tempfile
import warnings

import pytest
import tensorflow as tf

from common.commands.exit_code import CHECKPOINTS_KEPT, exit_code_of
from common.errors import InvalidInput
from tests.support.command_line import run_here, run_program, start_program


def failing(error):
    def main():
        raise error

    return main


@pytest.mark.parametrize(
    ("error", "code", "message"),
    [
        (InvalidInput("Invalid --x."), 2, "Invalid --x."),
        (
            OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), "runs/a"),
            2,
            "No space left on device runs/a. Finished work",
        ),
        (OSError(errno.EROFS, os.strerror(errno.EROFS), "runs/a"), 2, "Read-only file system runs/a. Finished work"),
        (tf.errors.ResourceExhaustedError(None, None, "events; No space left on device"), 2, "No space left on device"),
        (tf.errors.NotFoundError(None, None, "a/b.jpg; No such file or directory"), 2, "Invalid image file: received"),
        (KeyboardInterrupt(), 130, "run the same command to resume"),
        (
            MemoryError("Unable to allocate 36 TiB"),
            2,
            "Cannot continue: too little memory (Unable to allocate 36 TiB).",
        ),
        (MemoryError(), 2, "Cannot continue: too little memory. Finished work"),
        (SystemExit(7), 7, ""),
    ],
)
def test_trouble_from_outside_is_one_message(capsys, error, code, message):
    assert exit_code_of(failing(error), CHECKPOINTS_KEPT) == code
    shown = capsys.readouterr().err
    assert message.lower() in shown.lower()
    assert shown.count("error: ") == (code != 7)


def test_sigterm_ends_a_command_in_order_and_is_listened_to_only_meanwhile(capsys):
    before, done = signal.getsignal(signal.SIGTERM), []

    def main():
        try:
            os.kill(os.getpid(), signal.SIGTERM)
        finally:
            done.append("files are closed")

    assert exit_code_of(main, CHECKPOINTS_KEPT) == 143
    assert done == ["files are closed"]
    assert "Terminated. Finished work is kept; run the same command to resume" in capsys.readouterr().err
    assert signal.getsignal(signal.SIGTERM) is before


@pytest.mark.parametrize(
    "error", [RuntimeError("a mistake in the code"), tf.errors.ResourceExhaustedError(None, None, "out of memory")]
)
def test_other_errors_keep_their_traceback(error):
    with pytest.raises(type(error)):
        exit_code_of(failing(error))


def test_a_reader_that_has_gone_ends_a_command_quietly():
    reader, writer = os.pipe()
    os.close(reader)
    program = "import sys; from common.commands.exit_code import exit_code_of; "
    program += "sys.exit(exit_code_of(lambda: print(*range(50_000))))"
    with os.fdopen(writer, "wb", buffering=0) as unread, tempfile.TemporaryFile("w+") as shown:
        assert start_program(["-c", program], stdout=unread, stderr=shown).wait(300) == 141
        shown.seek(0)
        assert shown.read() == ""


def test_a_warning_is_one_line_once(capsys):
    def main():
        for _ in range(2):
            warnings.warn("It still is\n average pooling.", stacklevel=1)
        warnings.warn("Another.", stacklevel=2)

    assert exit_code_of(main) == 0
    assert capsys.readouterr().err == "warning: It still is average pooling.\nwarning: Another.\n"


@pytest.mark.parametrize(
    "command",
    [
        ("evaluate", "--json=there", "--embeddings=missing.npz"),
        ("search", "neighbours", "--index=missing", "--html=there"),
        ("search", "duplicates", "--index=missing", "--threshold=1", "--csv=there"),
        ("search", "map", "--index=missing", "--html=there"),
        ("search", "embed", "--images=missing", "--output=there.npz"),
        ("search", "index", "--images=missing", "--index=file"),
        ("clinic", "--images=missing", "--output=file"),
        ("report", "--runs=missing", "--output=file"),
        ("convert_weights", "--backbone=resnet10", "--output=there.npz"),
        ("pretrain", "--output=there.npz"),
        ("tune", "--output=there", "--report_only"),
    ],
    ids=" ".join,
)
def test_an_output_of_the_other_kind_is_refused_before_all_else(command, tmp_path):
    if command[0] == "tune":
        pytest.importorskip("optuna")
    for name in ("there", "there.npz"):
        (tmp_path / name).mkdir()
    (tmp_path / "file").touch()
    finished = run_here(f"experiments.{command[0]}", *command[1:], cwd=tmp_path)
    assert finished.returncode == 2
    flag = next(each for each in command if each.endswith(("there", "there.npz", "file"))).partition("=")[0]
    assert re.search(rf"Invalid {flag}: .*this is a (folder|file)", finished.stderr)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["file", "there", "there.npz"]


DETERMINISTIC = """
import tensorflow as tf
from common.records.environment import environment
from experiments.settings import flags

def main():
    options = tf.config.optimizer.get_experimental_options()
    print(environment()["deterministic_ops"], options.get("arithmetic_optimization"))

flags.define("deterministic")
flags.run_command(main)
"""


def test_a_deterministic_command_has_operations_and_sums_of_one_order():
    assert run_program(["-c", DETERMINISTIC, "--deterministic"]).stdout.strip() == "True False"
