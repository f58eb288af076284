"""End of a command: every failure from outside is one message and an exit code, without a traceback."""

from __future__ import annotations

import contextlib
import errno
import logging
import os
import select
import signal
import sys
from collections.abc import Callable

from common.errors import InvalidInput

CHECKPOINTS_KEPT = "Finished work is kept; run the same command to resume from the last checkpoint."
_RETRACED = "triggered tf.function retracing"
_NO_SPACE = os.strerror(errno.ENOSPC)


class Terminated(BaseException):
    """Raised on SIGTERM, e.g. from a cluster scheduler."""


class OutputLost(OSError):
    """The standard output cannot be written: its reader has gone, or the disk behind it is full."""


def exit_code_of(main: Callable[[], None], kept: str = "") -> int | str:
    """Runs `main` and says how it ended; errors in the code keep their traceback.

    Args:
        main: the command; may end with `sys.exit`.
        kept: what the message says when it was stopped: what the command has kept. Empty for one that keeps nothing.

    Returns:
        0; 2 for bad input, for trouble with files, such as a full disk, and for too little memory; 130 when
        interrupted; 143 after SIGTERM; 141, without a message, when the reader of the output has ended. What `main`
        gives to `sys.exit` is given on.
    """
    before = signal.signal(signal.SIGTERM, _terminate)
    logging.getLogger("tensorflow").addFilter(_is_news)
    try:
        with contextlib.redirect_stdout(_Output(sys.stdout)):
            code = _ending(main, f" {kept}" if kept else "")
    finally:
        signal.signal(signal.SIGTERM, before)
        logging.getLogger("tensorflow").removeFilter(_is_news)
    trouble = _trouble_at_the_end()
    return code if code or trouble is None else _code_of_output(trouble)


def _ending(main: Callable[[], None], kept: str) -> int | str:
    try:
        main()
    except SystemExit as ending:
        return ending.code or 0
    except InvalidInput as error:
        return _fail(str(error))
    except OutputLost as error:
        return _code_of_output(error)
    except OSError as error:
        if error.errno == errno.EPIPE and _has_no_reader(sys.stderr):
            return _code_of_output(error)
        place = f" {error.filename}" if error.filename else ""
        return _fail(f"Cannot continue: {error.strerror or error}{place}.{kept}")
    except MemoryError as error:
        return _fail(f"Cannot continue: too little memory{f' ({error})' if str(error) else ''}.{kept}")
    except Terminated:
        return _fail(f"Terminated.{kept}", code=143)
    except KeyboardInterrupt:
        return _fail(f"Interrupted.{kept}", code=130)
    except Exception as error:
        message = _message_of_tensorflow(error, kept)
        if not message:
            raise
        return _fail(message)
    return 0


def _message_of_tensorflow(error: Exception, kept: str) -> str:
    """What an error of a TensorFlow operation says of files; empty for errors in the code."""
    if "tensorflow" not in sys.modules:
        return ""
    import tensorflow as tf

    from common.data import invalid_input_behind

    if not isinstance(error, tf.errors.OpError):
        return ""
    explained = invalid_input_behind(error)
    if explained is None and _NO_SPACE not in str(error):
        return ""
    return str(explained or f"Cannot continue: {_NO_SPACE}.{kept}")


def _is_news(record: logging.LogRecord) -> bool:
    """Not that functions are traced again: each run of a command has a network, and so functions, of its own."""
    return _RETRACED not in record.getMessage()


def _terminate(number, frame):
    raise Terminated


class _Output:
    """The standard output, whose errors are distinguished from those of other files."""

    def __init__(self, stream):
        self._stream = stream

    def __getattr__(self, name):
        return getattr(self._stream, name)

    def write(self, text: str) -> int:
        with _lost_on_error():
            return self._stream.write(text)

    def flush(self) -> None:
        with _lost_on_error():
            self._stream.flush()


@contextlib.contextmanager
def _lost_on_error():
    try:
        yield
    except OSError as error:
        raise OutputLost(error.errno, error.strerror) from error


def _code_of_output(trouble: OSError) -> int:
    """The exit code for output that cannot be written, with a message unless its reader has gone."""
    if trouble.errno == errno.EPIPE:
        return 128 + signal.SIGPIPE
    return _fail(f"Cannot write the output: {trouble.strerror}.")


def _has_no_reader(stream) -> bool:
    poll = select.poll()
    poll.register(stream.fileno(), 0)
    return any(event & select.POLLERR for _, event in poll.poll(0))


def _trouble_at_the_end() -> OSError | None:
    """What keeps the last output from being written; it is then thrown away.

    Python flushes once more when it exits, and would end with exit code 120 and a notice of its own.
    """
    found = [_discard_if_lost(stream) for stream in (sys.stdout, sys.stderr)]
    return next(filter(None, found), None)


def _discard_if_lost(stream) -> OSError | None:
    try:
        stream.flush()
    except OSError as trouble:
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, stream.fileno())
        os.close(nowhere)
        with contextlib.suppress(OSError):
            stream.flush()
        return trouble
    return None


def _fail(message: str, code: int = 2) -> int:
    with contextlib.suppress(OSError):  # no stream is left for a message
        sys.stderr.write(f"\nerror: {message}\n")
    _discard_if_lost(sys.stderr)
    return code
