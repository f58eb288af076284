"""On which devices a model can be trained, and with what: refused by name before anything is traced."""

from __future__ import annotations

import tensorflow as tf
from tensorflow import keras

from common.errors import invalid

_STRATEGIES = (tf.distribute.MirroredStrategy, tf.distribute.MultiWorkerMirroredStrategy)


def check_devices(model: keras.Model, *, jit_compile: bool) -> None:
    """Refuses what does not train like one device with the global batch.

    Args:
        model: made in the scope of its strategy.
        jit_compile: whether its step is to be compiled with XLA.

    Raises:
        InvalidInput: on several replicas, XLA, batch normalisation of each replica's part of a batch, or another
            strategy than `MirroredStrategy` and `MultiWorkerMirroredStrategy`.
    """
    strategy = model.distribute_strategy
    name, count = type(strategy).__name__, strategy.num_replicas_in_sync
    if isinstance(strategy, tf.distribute.experimental.ParameterServerStrategy):
        expected = "MirroredStrategy or MultiWorkerMirroredStrategy"
        raise invalid("strategy", received=name, expected=expected, fix="Its replicas have no batch in common.")
    if count == 1:
        return
    if not isinstance(strategy, _STRATEGIES):
        raise invalid("strategy", received=name, expected="MirroredStrategy or MultiWorkerMirroredStrategy")
    if jit_compile:
        expected = f"False on several replicas (here {count})"
        raise invalid("jit_compile", received=True, expected=expected, fix="XLA has no gathering of batches here.")
    parts = [layer.name for layer in _batch_normalizations(model) if not layer.synchronized]
    if parts:
        raise invalid(
            f"batch normalisation on {count} replicas",
            received=", ".join(parts[:3]) + (" and others" if len(parts) > 3 else ""),
            expected="layers that are frozen (trainable=False), or have synchronized=True",
            fix="Otherwise each replica normalises by its own part of the batch.",
        )


def synchronize_batch_normalization(model: keras.Model) -> None:
    """Lets every batch normalisation that trains use the statistics of all replicas' batches.

    Args:
        model: whose layers are changed, before it is compiled; without effect on one device.

    Raises:
        InvalidInput: Keras 2, whose layers have to be made with `synchronized=True`.
    """
    layers = [layer for layer in _batch_normalizations(model) if not layer.synchronized]
    if layers and keras.__version__.startswith("2."):
        expected = "frozen layers, or layers made with synchronized=True"
        fix = "Use --frozen_batch_norm or Keras 3."
        raise invalid("batch normalisation of Keras 2", received=layers[0].name, expected=expected, fix=fix)
    for layer in layers:
        layer.synchronized = True


def _batch_normalizations(model: keras.Model) -> list[keras.layers.Layer]:
    """Those that use the statistics of a batch in training."""
    layers = model._flatten_layers(include_self=False, recursive=True)
    return [layer for layer in layers if isinstance(layer, keras.layers.BatchNormalization) and layer.trainable]
