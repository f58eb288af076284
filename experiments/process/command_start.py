"""Start of a command, before it is loaded: unknown modules are refused, and Ctrl-C is handled."""

from __future__ import annotations

import contextlib
import functools
import os
import pathlib
import re
import signal
import sys

_RUNS_WHEN_CALLED = re.compile("^if __name__ == ", re.MULTILINE)
_TERMINAL = 2


def is_being_started() -> bool:
    """Whether Python is looking for the module of `python -m <module>`, and not importing one; see `sys.argv`."""
    return sys.argv[:1] == ["-m"]


def refuse_parts_of_commands(package: str, folder: str | os.PathLike) -> None:
    """Ends `python -m <package>.<module>` with one message and exit code 2 where the module is no command.

    For the `__init__` of a package of commands: a module that only defines something would end with exit code 0 and
    say nothing.

    Args:
        package: the package's name.
        folder: where its modules are.
    """
    if not is_being_started():
        return
    module = sys.orig_argv[-len(sys.argv)].rpartition("-m")[2]
    folder = pathlib.Path(folder)
    source = folder.joinpath(*module.split(".")[1:]).with_suffix(".py")
    if module.startswith(f"{package}.") and source.is_file() and not _is_command(source):
        names = ", ".join(path.stem for path in sorted(folder.glob("*.py")) if _is_command(path))
        _say(_TERMINAL, f"{module} is no command, but a part of some. Commands of {package}: {names}.")
        sys.exit(2)


def end_at_once_when_interrupted(terminal: int = _TERMINAL) -> None:
    """Until another handler for SIGINT is set, it ends the process with one message and exit code 130.

    An exception in the middle of an import comes out as another one, or not at all, where C code calls Python.

    Args:
        terminal: the file descriptor for the message.
    """
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler or ends_at_once():
        signal.signal(signal.SIGINT, functools.partial(_end, terminal))


def ends_at_once() -> bool:
    """Whether `end_at_once_when_interrupted` holds."""
    return getattr(signal.getsignal(signal.SIGINT), "func", None) is _end


def _end(terminal: int, number: int, frame) -> None:
    _say(terminal, "Interrupted before anything was begun.")
    os._exit(128 + number)


def _say(terminal: int, message: str) -> None:
    with contextlib.suppress(OSError):  # the terminal has gone, too
        os.write(terminal, f"\nerror: {message}\n".encode())


def _is_command(path: pathlib.Path) -> bool:
    return _RUNS_WHEN_CALLED.search(path.read_text(encoding="utf-8")) is not None
