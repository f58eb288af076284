"""Exit codes: external failures end with one message and no traceback."""

from __future__ import annotations

import contextlib
import errno
import functools
import importlib.abc
import importlib.machinery
import importlib.util
import logging
import os
import signal
import sys
import types
import warnings
from collections.abc import Callable, Iterator
from typing import Any

from common.errors import InvalidInput
from common.progress import write_notice

CHECKPOINTS_KEPT = "Finished work is kept; run the same command to resume from the last checkpoint."
GPU_DRIVERS = ("/proc/driver/nvidia/version", "/dev/nvidiactl", "/dev/dxg")  # the last: Windows' subsystem for Linux
_RETRACED = "triggered tf.function retracing"
_NO_SPACE = os.strerror(errno.ENOSPC)


class Terminated(BaseException):
    """Raised on SIGTERM, e.g. from a cluster scheduler."""


def import_tensorflow() -> Any:
    """Import TensorFlow without its start-up notices and return it."""
    _quieten_tensorflow()
    import tensorflow

    return tensorflow


class _QuietImport(importlib.abc.MetaPathFinder):
    """Silence the first import of TensorFlow, whichever module it comes from.

    TensorFlow 2.21 writes notices before a log level can be set, so file descriptor 2 is redirected to null meanwhile.
    """

    def find_spec(self, name: str, path: object = None, target: object = None) -> importlib.machinery.ModuleSpec | None:
        if name != "tensorflow":
            return None
        sys.meta_path.remove(self)
        spec = importlib.util.find_spec(name)
        if spec is not None and spec.loader is not None:
            spec.loader.exec_module = functools.partial(_quietly, spec.loader.exec_module)  # type: ignore[method-assign]
        return spec


def _quieten_tensorflow() -> None:
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    if "tensorflow" not in sys.modules and not any(isinstance(each, _QuietImport) for each in sys.meta_path):
        sys.meta_path.insert(0, _QuietImport())


def _quietly(execute: Callable[[types.ModuleType], None], module: types.ModuleType) -> None:
    with native_notices_silenced():
        execute(module)


@contextlib.contextmanager
def native_notices_silenced() -> Iterator[None]:
    """Redirect file descriptor 2, on which libraries write past Python, to null."""
    with contextlib.ExitStack() as stack:
        saved = os.dup(2)
        stack.callback(os.close, saved)
        stack.callback(os.dup2, saved, 2)
        with open(os.devnull, "w") as nowhere:
            os.dup2(nowhere.fileno(), 2)
        yield


def sees_gpu() -> bool:
    """Return whether TensorFlow sees a GPU.

    Without a driver on Linux, TensorFlow is not imported.
    """
    if sys.platform == "linux" and not any(os.path.exists(path) for path in GPU_DRIVERS):
        return False
    return bool(import_tensorflow().config.list_physical_devices("GPU"))


def exit_code_of(main: Callable[[], None], kept: str = "") -> int | str:
    """Run `main` and return its exit code; bugs keep their traceback.

    Args:
        kept: the message's sentence on what a stopped command has kept; empty if nothing.

    Returns:
        0; 2 for bad input, file errors such as a full disk, or too little memory; 130 when
        interrupted; 143 after SIGTERM; 141, without a message, when the output's reader has closed. The argument
        of `sys.exit` is returned as it is.
    """
    _quieten_tensorflow()
    before = signal.signal(signal.SIGTERM, _terminate)
    logging.getLogger("tensorflow").addFilter(_is_news)
    try:
        with warnings.catch_warnings():
            # Pillow's, on large photos and odd metadata: an unreadable photo gets our own message.
            warnings.filterwarnings("ignore", module="PIL")
            warnings.showwarning = _plain_warnings()
            return _ending(main, f" {kept}" if kept else "")
    finally:
        signal.signal(signal.SIGTERM, before)
        logging.getLogger("tensorflow").removeFilter(_is_news)


def _ending(main: Callable[[], None], kept: str) -> int | str:
    try:
        main()
        sys.stdout.flush()
    except SystemExit as ending:
        return ending.code or 0
    except InvalidInput as error:
        return _fail(str(error))
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # Python flushes once more when it exits
        return 128 + signal.SIGPIPE
    except OSError as error:
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
    """Return the file error in a TensorFlow error, "" for bugs."""
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
    """Return False for notices of retracing, which every command causes."""
    return _RETRACED not in record.getMessage()


def _plain_warnings() -> Callable[..., None]:
    """Return a function that shows each warning once, as one line."""
    shown: set[str] = set()

    def show(message: Warning | str, *_: object, **__: object) -> None:
        text = " ".join(str(message).split())
        if text not in shown:
            shown.add(text)
            write_notice(f"warning: {text}")

    return show


def _terminate(number: int, frame: object) -> None:
    raise Terminated


def _fail(message: str, code: int = 2) -> int:
    sys.stderr.write(f"\nerror: {message}\n")
    return code
