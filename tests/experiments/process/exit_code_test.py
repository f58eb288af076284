"""How a command ends when something from outside goes wrong: one message, an exit code, no traceback."""

import errno
import os
import signal
import tempfile

import numpy as np
import pytest
import tensorflow as tf

from common.errors import InvalidInput
from experiments.process.exit_code import CHECKPOINTS_KEPT, exit_code_of
from tests.command_line import run_module, start_program


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


def test_networks_of_many_runs_are_traced_without_a_word(caplog):
    def main():
        for _ in range(7):  # each with a function of its own, as models have
            tf.function(lambda value: value + 1)(tf.constant(1))
        tf.get_logger().warning("something else")

    assert exit_code_of(main) == 0
    assert caplog.messages == ["something else"]
    retraced = "5 out of the last 5 calls to f triggered tf.function retracing."
    tf.get_logger().warning(retraced)  # outside of commands it is news
    assert caplog.messages == ["something else", retraced]


def test_success_is_zero():
    assert exit_code_of(lambda: None) == 0


@pytest.mark.parametrize("error", [KeyboardInterrupt(), OSError(errno.EROFS, os.strerror(errno.EROFS), "scores.json")])
def test_what_keeps_nothing_does_not_promise_to_continue(capsys, error):
    exit_code_of(failing(error))
    shown = capsys.readouterr().err
    assert shown.endswith(("error: Interrupted.\n", "error: Cannot continue: Read-only file system scores.json.\n"))


@pytest.fixture(scope="module")
def arguments(tmp_path_factory):
    """Of a command that prints a short table."""
    folder = tmp_path_factory.mktemp("embeddings")
    labels = np.repeat(np.arange(5), 4)
    np.savez(folder / "x.npz", embeddings=np.random.default_rng(0).normal(size=(20, 3)), labels=labels)
    return [f"--embeddings={folder}/x.npz"]


def ended(arguments, stdout, stderr=None):
    """Exit code and error output of a program whose streams are these files."""
    with tempfile.TemporaryFile("w+") as shown:
        process = start_program(arguments, stdout=stdout, stderr=stderr or shown)
        code = process.wait(300)
        shown.seek(0)
        return code, shown.read()


@pytest.fixture
def unread():
    """A pipe that nobody reads."""
    reader, writer = os.pipe()
    os.close(reader)
    with os.fdopen(writer, "wb", buffering=0) as stream:
        yield stream


def printing(what):
    program = "import sys; from experiments.process.exit_code import exit_code_of; "
    return ["-c", f"{program}sys.exit(exit_code_of(lambda: print({what})))"]


PRINTS = {
    "at the end": printing("'x'"),
    "at once": printing("100_000 * 'x'"),
    "line by line": printing("*range(5000), sep='\\n'"),
    "help": ["-m", "experiments.evaluate", "--help"],
}


@pytest.mark.parametrize("what", PRINTS)
def test_a_reader_that_has_gone_ends_a_command_quietly(what, unread):
    assert ended(PRINTS[what], unread) == (141, "")


def test_readers_of_both_outputs_may_have_gone(unread):
    assert ended(printing("'x', file=sys.stderr, flush=True"), unread, unread)[0] == 141


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="there is no /dev/full")
@pytest.mark.parametrize("what", PRINTS)
def test_output_that_does_not_fit_is_one_message_that_promises_nothing(what):
    with open("/dev/full", "wb", buffering=0) as full:
        code, shown = ended(PRINTS[what], full)
        assert (code, shown) == (2, "\nerror: Cannot write the output: No space left on device.\n")
        failure = printing("open('/nowhere/at/all')")
        assert ended(failure, full)[1] == "\nerror: Cannot continue: No such file or directory /nowhere/at/all.\n"
        assert ended(failure, full, full)[0] == 2


def test_a_command_that_prints_to_nobody_ends_so(arguments, unread):
    assert ended(["-m", "experiments.evaluate", *arguments], unread) == (141, "")


def test_help_is_no_error():
    finished = run_module("experiments.evaluate", "--help")
    assert (finished.returncode, finished.stderr) == (0, "")
    assert "--embeddings" in finished.stdout
