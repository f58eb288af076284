"""How a command ends when something from outside goes wrong: one message, an exit code, no traceback."""

import errno
import os
import signal

import pytest
import tensorflow as tf

from common.ops.checks import InvalidInput
from experiments.flags import exit_code_of


def failing(error):
    def main():
        raise error

    return main


@pytest.mark.parametrize(
    ("error", "code", "message"),
    [
        (InvalidInput("Invalid --x."), 2, "Invalid --x."),
        (OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), "runs/a"), 2, "No space left on device runs/a. What was"),
        (OSError(errno.EROFS, os.strerror(errno.EROFS), "runs/a"), 2, "Read-only file system runs/a. What was"),
        (tf.errors.ResourceExhaustedError(None, None, "events; No space left on device"), 2, "No space left on device"),
        (tf.errors.NotFoundError(None, None, "a/b.jpg; No such file or directory"), 2, "Invalid image file: received"),
        (KeyboardInterrupt(), 130, "the same command continues"),
    ],
)
def test_trouble_from_outside_is_one_message(capsys, error, code, message):
    assert exit_code_of(failing(error)) == code
    shown = capsys.readouterr().err
    assert message.lower() in shown.lower()
    assert shown.count("error: ") == 1


def test_sigterm_ends_a_command_in_order_and_is_listened_to_only_meanwhile(capsys):
    before, done = signal.getsignal(signal.SIGTERM), []

    def main():
        try:
            os.kill(os.getpid(), signal.SIGTERM)
        finally:
            done.append("files are closed")

    assert exit_code_of(main) == 143
    assert done == ["files are closed"]
    assert "Terminated. What was finished before is kept; the same command continues" in capsys.readouterr().err
    assert signal.getsignal(signal.SIGTERM) is before


@pytest.mark.parametrize(
    "error", [RuntimeError("a mistake in the code"), tf.errors.ResourceExhaustedError(None, None, "out of memory")]
)
def test_other_errors_keep_their_traceback(error):
    with pytest.raises(type(error)):
        exit_code_of(failing(error))


def test_success_is_zero():
    assert exit_code_of(lambda: None) == 0
