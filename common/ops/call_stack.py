"""Who calls a layer, where neither TensorFlow nor Keras tells it."""

from __future__ import annotations

import sys
import types
from collections.abc import Iterator

_DIFFERENTIATORS = ("tensorflow.python.eager.imperative_grad", "tensorflow.python.ops.gradients_util")


def is_recomputation() -> bool:
    """Tell whether a forward pass runs inside a gradient (`tf.recompute_grad`, `keras.RematScope`).

    Such a pass repeats an earlier one. State that advances in training must not advance again.
    """
    return any(module in _DIFFERENTIATORS for module, _ in _callers())


def is_called_by_keras(function: str) -> bool:
    """Tell whether a function of Keras is running.

    Args:
        function: its name, such as "fit".
    """
    return any(name == function and module.split(".")[0] in ("keras", "tf_keras") for module, name in _callers())


def _callers() -> Iterator[tuple[str, str]]:
    """Yield module and function of this thread's frames, the innermost first."""
    frame: types.FrameType | None = sys._getframe(1)
    while frame is not None:
        yield frame.f_globals.get("__name__", ""), frame.f_code.co_name
        frame = frame.f_back
