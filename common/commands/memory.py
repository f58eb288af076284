"""Memory of a process that trains many runs in turn."""

from __future__ import annotations

import ctypes
import functools
import gc
import os
import sys

_TRIM_THRESHOLD, _MMAP_MAX = -1, -4  # of glibc's malloc.h


def keep_freed_memory() -> None:
    """Let glibc keep what a step frees.

    It gives large arrays back to the system, which clears each page again: 50,000 page faults a step of
    EfficientNet-lite0. Does nothing on other C libraries, or if `MALLOC_MMAP_MAX_` is set.
    """
    if "MALLOC_MMAP_MAX_" in os.environ or not sys.platform.startswith("linux"):
        return
    set_option = getattr(ctypes.CDLL(None), "mallopt", None)
    if set_option is not None:
        set_option(_MMAP_MAX, 0)
        set_option(_TRIM_THRESHOLD, 2**31 - 1)


@functools.cache
def spare_loaded_modules() -> None:
    """Exclude all current objects from garbage collection, once per process.

    Call it after a command's imports. A process that trains many units collects garbage between them. Scanning
    TensorFlow's hundred thousand or more permanent objects takes a quarter of a second each time.
    """
    gc.collect()
    gc.freeze()
