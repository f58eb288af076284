"""Callbacks of Keras that wait for a metric which a callback after them would measure."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import TypeAlias

from tensorflow import keras

from common.errors import invalid
from common.training.callbacks import EmbeddingDiagnostics, RetrievalEvaluation

# What `fit` of Keras takes.
Callbacks: TypeAlias = keras.callbacks.Callback | Sequence[keras.callbacks.Callback] | None


def check_callback_order(callbacks: Callbacks, metric_names: Collection[str] = ()) -> None:
    """Stops a `fit` in which a callback with a `monitor` stands before the one that measures.

    `EarlyStopping`, `ReduceLROnPlateau` and `ModelCheckpoint` only warn of a metric that is not in the logs yet; then
    they do nothing, and training continues to the last epoch. What `fit` itself measures (`loss`, the metrics of
    `compile`, and `val_...`) can be monitored anywhere.

    Args:
        callbacks: what `fit` takes.
        metric_names: the metrics of `compile`.

    Raises:
        InvalidInput: such a callback stands before a `RetrievalEvaluation` or `EmbeddingDiagnostics`.
    """
    listed = callbacks if isinstance(callbacks, (list, tuple)) else [callbacks]
    measures = [isinstance(callback, (RetrievalEvaluation, EmbeddingDiagnostics)) for callback in listed]
    for position, callback in enumerate(listed):
        monitor = getattr(callback, "monitor", "loss")
        is_of_fit = monitor in ("loss", *metric_names) or monitor.startswith("val_")
        if any(measures[position:]) and not is_of_fit:
            raise invalid(
                "callbacks",
                received=f"{type(callback).__name__}(monitor={monitor!r}) before the callback that measures it",
                expected="RetrievalEvaluation first",
                fix=f"Move {type(callback).__name__} behind it: Keras calls them in the order of the list.",
            )
