"""Several runs in one process, without leftovers of earlier ones."""

from __future__ import annotations

import contextlib
import gc
from collections.abc import Iterator

from tensorflow import keras
from tensorflow.python.framework import ops

from common.training.devices import full_float32

_PREFIX = "CustomGradient-"  # what tf.custom_gradient calls the gradients that it registers while a graph is traced


@contextlib.contextmanager
def training_session(seed: int) -> Iterator[None]:
    """Around a run: starts from a fresh Keras session and seed, and in the end lets go of the training's graphs.

    Inside, float32 is float32 on every GPU (`full_float32`).

    TensorFlow registers the gradient of every `tf.custom_gradient` that it traces under a name of its own, for ever,
    and each holds its graph, and with it the variables of the model and of its optimiser. A study of a hundred
    runs in one process would keep all of their weights. What was traced inside is forgotten at the end of the
    block; what was traced before stays.

    Args:
        seed: of Python, NumPy and the backend.
    """
    keras.backend.clear_session()
    gc.collect()
    keras.utils.set_random_seed(seed)
    before = registered_gradients()
    try:
        with full_float32():
            yield
    finally:
        forget_gradients(registered_gradients() - before)


def registered_gradients() -> set[str]:
    """Names of the custom gradients that TensorFlow holds; none if it no longer keeps them where it did."""
    return {name for name in _registry() if name.startswith(_PREFIX)}


def forget_gradients(names: set[str]) -> None:
    """Lets go of custom gradients; functions that were traced with them can no longer be differentiated."""
    registry = _registry()
    for name in names:
        del registry[name]


def _registry() -> dict:
    """TensorFlow has no public way to it; releases 2.15 to 2.21 keep it here."""
    return getattr(getattr(ops, "gradient_registry", None), "_registry", {})
