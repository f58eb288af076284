"""Keeps TensorFlow's start-up notices off the terminal, so that a command's one line of error stands alone."""

from __future__ import annotations

import contextlib
import functools
import importlib.abc
import importlib.machinery
import os
import signal
import sys
import threading
import types
from collections.abc import Callable, Iterator, Sequence

from experiments.process.command_start import end_at_once_when_interrupted, ends_at_once

_TENSORFLOW = "tensorflow"
_STREAMS = {"stdin": "r", "stdout": "w", "stderr": "w"}  # file descriptors 0, 1 and 2


@contextlib.contextmanager
def silence_tensorflow_import() -> Iterator[None]:
    """Sends file descriptor 2 to nowhere while TensorFlow is imported; Python's exceptions still come through.

    TensorFlow 2.21 writes notices on processors and libraries before any log level can be set. Where nothing in the
    block imports it, its first import afterwards is as silent. In a command Ctrl-C ends meanwhile with one message;
    afterwards it is a `KeyboardInterrupt`.
    """
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    open_closed_streams()
    is_outermost = ends_at_once() and getattr(signal.getsignal(signal.SIGINT), "args", None) == (2,)
    with _silence(is_outermost):
        yield
    if _TENSORFLOW not in sys.modules:
        sys.meta_path.insert(0, _SilentImport(is_outermost))


@contextlib.contextmanager
def _silence(ends_when_interrupted: bool) -> Iterator[None]:
    """Sends file descriptor 2 to nowhere; while it is there, Ctrl-C may end the process with one message."""
    saved, nowhere = os.dup(2), os.open(os.devnull, os.O_WRONLY)
    if ends_when_interrupted:
        end_at_once_when_interrupted(saved)
    try:
        os.dup2(nowhere, 2)
        yield
    finally:
        os.dup2(saved, 2)
        if ends_when_interrupted:
            signal.signal(signal.SIGINT, signal.default_int_handler)
        os.close(saved)
        os.close(nowhere)


class _SilentImport(importlib.abc.MetaPathFinder):
    """Makes the first import of TensorFlow silent, wherever it is.

    Args:
        of_command: whether Ctrl-C ends the process meanwhile.
    """

    def __init__(self, of_command: bool) -> None:
        self._of_command = of_command

    def find_spec(
        self, name: str, path: Sequence[str] | None, target: types.ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        """That of TensorFlow, with a silent loader; None for any other module."""
        spec = importlib.machinery.PathFinder.find_spec(name, path, target) if name == _TENSORFLOW else None
        if spec is not None and spec.loader is not None:
            vars(spec.loader)["exec_module"] = functools.partial(self._execute, spec.loader.exec_module)
        return spec

    def _execute(self, execute: Callable[[types.ModuleType], None], module: types.ModuleType) -> None:
        in_command = self._of_command and threading.current_thread() is threading.main_thread()
        with _silence(in_command and signal.getsignal(signal.SIGINT) is signal.default_int_handler):
            execute(module)
        sys.meta_path.remove(self)


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
