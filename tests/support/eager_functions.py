"""Whether `tf.function` makes graphs; making them is nearly all that a run of a few steps costs."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import tensorflow as tf


@contextlib.contextmanager
def eagerly(is_eager: bool) -> Iterator[None]:
    """Within it, functions run as Python (those of `tf.data` stay graphs), or as graphs; then as before."""
    before = tf.config.functions_run_eagerly()
    tf.config.run_functions_eagerly(is_eager)
    try:
        yield
    finally:
        tf.config.run_functions_eagerly(before)
