"""Several runs in one process, without leftovers of earlier ones."""

from __future__ import annotations

import contextlib
import gc
from collections.abc import Iterator

from tensorflow import keras
from tensorflow.python.framework import ops

from common.training.devices import full_float32

_PREFIX = "CustomGradient-"  # of the gradients that tf.custom_gradient registers while a graph is traced


@contextlib.contextmanager
def training_session(seed: int) -> Iterator[None]:
    """Start a fresh Keras session and seed; release its graphs afterwards.

    Inside, float32 is float32 on every GPU (`full_float32`).

    TensorFlow registers the gradient of every traced `tf.custom_gradient` under a new name, for ever. Each holds its
    graph, and with it the variables of the model and of its optimiser. A study of a hundred runs in one process would
    keep all of their weights. The end of the block releases the gradients traced inside, and keeps earlier ones.

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
    """Return the names of TensorFlow's registered custom gradients, if accessible."""
    return {name for name in _registry() if name.startswith(_PREFIX)}


def forget_gradients(names: set[str]) -> None:
    """Release custom gradients; functions traced with them lose their derivatives."""
    registry = _registry()
    for name in names:
        del registry[name]


def _registry() -> dict:
    """Return the registry from its private place in TensorFlow 2.15 to 2.21.

    There is no public access.
    """
    return getattr(getattr(ops, "gradient_registry", None), "_registry", {})
