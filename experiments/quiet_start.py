"""Keeps TensorFlow's start-up notices off the terminal, so that a command's one line of error stands alone."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator


@contextlib.contextmanager
def quiet_start() -> Iterator[None]:
    """Sends file descriptor 2 to nowhere while TensorFlow is imported; Python's exceptions still come through.

    TensorFlow 2.21 writes notices on processors and libraries before any log level can be set.
    """
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    saved, nowhere = os.dup(2), os.open(os.devnull, os.O_WRONLY)
    try:
        os.dup2(nowhere, 2)
        yield
    finally:
        os.dup2(saved, 2)
        os.close(saved)
        os.close(nowhere)
