"""Whether `tf.function` makes graphs; making them is nearly all that a run of a few steps costs."""

from __future__ import annotations

import contextlib
import random
from collections.abc import Iterator
from unittest import mock

import tensorflow as tf
from tensorflow.python.eager.context import Context


@contextlib.contextmanager
def eagerly(is_eager: bool) -> Iterator[None]:
    """Within it, functions run as Python (those of `tf.data` stay graphs), or as graphs; then as before.

    Eager runs share kernels and the traces of `tf.data`. Each would else make them again, a third of its time.
    """
    before = tf.config.functions_run_eagerly()
    tf.config.run_functions_eagerly(is_eager)
    try:
        with _kept_session() if is_eager else contextlib.nullcontext():
            yield
    finally:
        tf.config.run_functions_eagerly(before)


@contextlib.contextmanager
def _kept_session() -> Iterator[None]:
    """Keep kernels and the default graph where Keras begins a session or is given a seed."""
    with (
        mock.patch.object(Context, "clear_kernel_cache"),
        mock.patch.object(Context, "_set_global_seed", _set_seed),
        mock.patch.object(tf.compat.v1, "reset_default_graph"),
    ):
        yield


def _set_seed(context: Context, seed: int | None) -> None:
    context._seed, context._rng = seed, random.Random(seed)
