"""Loaded modules, which no collection of garbage needs to look through again."""

from __future__ import annotations

import functools
import gc


@functools.cache
def spare_loaded_modules() -> None:
    """Takes what exists now out of all later collections, once in a process; for after the imports of a command.

    A process that trains many units collects garbage between them. TensorFlow alone has some hundred thousand objects
    that live as long as the process, and to look through them takes a quarter of a second each time.
    """
    gc.collect()
    gc.freeze()
