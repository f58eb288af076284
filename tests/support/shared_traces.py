"""Models of tests that train with each other's traces: making graphs is nearly all that a run of a few steps costs."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Hashable, Iterator

import tensorflow as tf

from common.training import EmbeddingModel, TracedFunctions

_CURRENT: list[TracedFunctions] = []


@contextlib.contextmanager
def shared_traces() -> Iterator[None]:
    """Within it, models that were handed to `share` have traces in common."""
    _CURRENT.append(TracedFunctions())
    try:
        yield
    finally:
        _CURRENT.pop()


def share(model: EmbeddingModel, *kind: Hashable) -> EmbeddingModel:
    """Has a model use the traces of those before it with the same loss and the same kind, within `shared_traces`.

    Args:
        model: that no test changes by other means than its variables.
        kind: what decides its graph besides the loss's settings.
    """
    if _CURRENT:
        loss = json.dumps(_without_names(tf.keras.utils.serialize_keras_object(model.metric_loss)), default=str)
        model.share_traces(_CURRENT[-1], (loss, *kind))
    return model


def _without_names(described):
    """A description without the names of layers, which Keras counts."""
    if isinstance(described, dict):
        return {key: _without_names(value) for key, value in described.items() if key != "name"}
    return [_without_names(value) for value in described] if isinstance(described, (list, tuple)) else described
