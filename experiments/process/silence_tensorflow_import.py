"""Keeps TensorFlow's start-up notices off the terminal, so that a command's one line of error stands alone."""

from __future__ import annotations

import contextlib
import os
import signal
import sys
from collections.abc import Iterator

from experiments.process.command_start import end_at_once_when_interrupted, ends_at_once

_STREAMS = {"stdin": "r", "stdout": "w", "stderr": "w"}  # file descriptors 0, 1 and 2


@contextlib.contextmanager
def silence_tensorflow_import() -> Iterator[None]:
    """Sends file descriptor 2 to nowhere while TensorFlow is imported; Python's exceptions still come through.

    TensorFlow 2.21 writes notices on processors and libraries before any log level can be set. In a command Ctrl-C
    ends meanwhile with one message; afterwards it is a `KeyboardInterrupt`.
    """
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    open_closed_streams()
    saved, nowhere = os.dup(2), os.open(os.devnull, os.O_WRONLY)
    is_outermost = ends_at_once() and getattr(signal.getsignal(signal.SIGINT), "args", None) == (2,)
    if is_outermost:
        end_at_once_when_interrupted(saved)
    try:
        os.dup2(nowhere, 2)
        yield
    finally:
        os.dup2(saved, 2)
        if is_outermost:
            signal.signal(signal.SIGINT, signal.default_int_handler)
        os.close(saved)
        os.close(nowhere)


def open_closed_streams() -> None:
    """An input, output or error stream that is closed (`2>&-`) becomes `/dev/null`.

    Otherwise the next file that is opened, such as a checkpoint, would take its number, and what a library writes to
    the terminal would end in it.
    """
    for number, (name, mode) in enumerate(_STREAMS.items()):
        try:
            os.fstat(number)
        except OSError:
            nowhere = os.open(os.devnull, os.O_RDWR)
            os.dup2(nowhere, number)
            if nowhere != number:
                os.close(nowhere)
        if getattr(sys, name) is None:
            setattr(sys, name, os.fdopen(number, mode, closefd=False))
