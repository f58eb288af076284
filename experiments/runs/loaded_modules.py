"""Loaded modules, excluded from garbage collection."""

from __future__ import annotations

import functools
import gc


@functools.cache
def spare_loaded_modules() -> None:
    """Exclude all current objects from garbage collection, once per process.

    Call it after a command's imports. A process that trains many units collects garbage between them. Scanning
    TensorFlow's hundred thousand or more permanent objects takes a quarter of a second each time.
    """
    gc.collect()
    gc.freeze()
