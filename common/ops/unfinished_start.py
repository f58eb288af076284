"""Warnings of layers that still wait for their start, such as a memory."""

from __future__ import annotations

import warnings

from tensorflow import keras

from common.ops.call_stack import is_called_by_keras


class UnfinishedStart:
    """A layer that may still wait for its start; a mixin beside `keras.layers.Layer`.

    It warns once: at the end of `fit`, when it is saved, or in `predict`.
    """

    _has_warned = False

    def unfinished_start(self) -> str:
        """Describe the missing start and its cure; empty without one."""
        return ""

    def warn_of_unfinished_start(self) -> None:
        """Warn, once, if the layer still waits for its start."""
        if not self._has_warned and (problem := self.unfinished_start()):
            self._has_warned = True
            warnings.warn(problem, stacklevel=2)

    def save_own_variables(self, store: dict) -> None:
        """Save the weights; warn of an unfinished start, unless `fit` saves a checkpoint."""
        super().save_own_variables(store)  # type: ignore[misc]  # of the layer beside
        if not is_called_by_keras("fit"):
            self.warn_of_unfinished_start()


def warn_of_unfinished_starts(model: keras.Model) -> None:
    """Warn of each layer of a model that still waits for its start."""
    for layer in model._flatten_layers(include_self=False, recursive=True):
        if isinstance(layer, UnfinishedStart):
            layer.warn_of_unfinished_start()
