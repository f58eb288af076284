"""The order of Keras callbacks: those that measure before those that wait."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import TypeAlias

from tensorflow import keras

from common.errors import invalid
from common.training.callbacks import EmbeddingDiagnostics, RetrievalEvaluation

# The callbacks that Keras' `fit` accepts.
Callbacks: TypeAlias = keras.callbacks.Callback | Sequence[keras.callbacks.Callback] | None


def check_callback_order(callbacks: Callbacks, metric_names: Collection[str] = ()) -> None:
    """Refuse a callback with a `monitor` before the one that measures it.

    `EarlyStopping`, `ReduceLROnPlateau` and `ModelCheckpoint` only warn of a metric that is not in the logs yet; then
    they do nothing, and training continues to the last epoch. Metrics of `fit` itself (`loss`, those of `compile`, and
    these with `val_`) can be monitored anywhere.

    Args:
        callbacks: those of `fit`.
        metric_names: the metrics of `compile`.

    Raises:
        InvalidInput: such a callback precedes a `RetrievalEvaluation` or `EmbeddingDiagnostics`.
    """
    listed = callbacks if isinstance(callbacks, (list, tuple)) else [callbacks]
    for position, callback in enumerate(listed):
        monitor = getattr(callback, "monitor", "loss")
        is_of_fit = monitor.removeprefix("val_") in ("loss", *metric_names)
        measures = [_measures(each, monitor) for each in listed]
        if any(measures[position:]) and not any(measures[:position]) and not is_of_fit:
            raise invalid(
                "callbacks",
                received=f"{type(callback).__name__}(monitor={monitor!r}) before the callback that measures it",
                expected="RetrievalEvaluation first",
                fix=f"Move {type(callback).__name__} behind it: Keras calls them in the order of the list.",
            )


def _measures(callback: object, monitor: str) -> bool:
    if isinstance(callback, RetrievalEvaluation) and callback.prefix:
        return monitor.startswith(callback.prefix)
    return isinstance(callback, (RetrievalEvaluation, EmbeddingDiagnostics)) and not monitor.startswith("val_")
