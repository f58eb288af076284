"""Devices and precision: supported combinations; unsupported ones fail before tracing."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator

import tensorflow as tf
from tensorflow import keras

from common.errors import check_choice, check_keras, invalid

check_keras(keras)

IS_KERAS_3 = hasattr(keras, "ops")
KERAS_VERSION = tuple(map(int, sys.modules["keras"].__version__.split(".")[:2])) if IS_KERAS_3 else (2, 15)
PRECISIONS = ("float32", "mixed_float16", "mixed_bfloat16")
_STRATEGIES = (tf.distribute.MirroredStrategy, tf.distribute.MultiWorkerMirroredStrategy)


def mirrored_strategy(replicas: int) -> tf.distribute.Strategy:
    """Return a strategy of this host's first GPUs, or virtual CPU devices.

    Virtual devices share the cores: they show that a program works on several devices, but are not faster than one.
    They are used only without any GPU.

    Args:
        replicas: number of devices, at least 1; 1 is TensorFlow's default strategy.

    Raises:
        InvalidInput: the host has fewer GPUs, or TensorFlow already runs with fewer virtual devices.
    """
    if replicas == 1:
        return tf.distribute.get_strategy()
    check_replicas(replicas)
    kind = "GPU" if tf.config.list_physical_devices("GPU") else "CPU"
    return tf.distribute.MirroredStrategy([f"/{kind.lower()}:{index}" for index in range(replicas)])


def check_replicas(replicas: int) -> None:
    """Check the number of devices; without a GPU, create virtual CPU devices.

    Raises:
        InvalidInput: see `mirrored_strategy`.
    """
    gpus, processors = (tf.config.list_physical_devices(kind) for kind in ("GPU", "CPU"))
    if gpus and len(gpus) < replicas:
        raise invalid("replicas", received=replicas, expected=f"up to {len(gpus)}, the GPUs of this host")
    if gpus:
        return
    virtual = tf.config.get_logical_device_configuration(processors[0]) or [None]
    if len(virtual) >= replicas:
        return
    try:
        settings = [tf.config.LogicalDeviceConfiguration()] * replicas
        tf.config.set_logical_device_configuration(processors[0], settings)
    except RuntimeError as error:  # TensorFlow has begun to work
        expected = f"{len(virtual)}, the virtual devices that TensorFlow has begun with"
        raise invalid("replicas", received=replicas, expected=expected, fix="Begin a new process.") from error


@contextlib.contextmanager
def full_float32() -> Iterator[None]:
    """Disable TensorFloat-32 temporarily: GPU float32 products then have 24 bits, not 11.

    TensorFlow has one switch for a process, and none for an operation. Distances of eleven bits are wrong in the third
    digit, which decides between neighbours. Convolutions in half precision are not affected.
    """
    before = tf.config.experimental.tensor_float_32_execution_enabled()
    tf.config.experimental.enable_tensor_float_32_execution(False)
    try:
        yield
    finally:
        tf.config.experimental.enable_tensor_float_32_execution(before)


@contextlib.contextmanager
def precision_policy(precision: str) -> Iterator[None]:
    """Set the compute precision of layers made inside.

    Their weights, and all losses, stay float32.

    Args:
        precision: one of `PRECISIONS`.

    Raises:
        InvalidInput: another name.
    """
    check_choice("precision", precision, PRECISIONS)
    before = keras.mixed_precision.global_policy()
    keras.mixed_precision.set_global_policy(precision)
    try:
        yield
    finally:
        keras.mixed_precision.set_global_policy(before)


def scaled_optimizer(optimizer: keras.optimizers.Optimizer, precision: str) -> keras.optimizers.Optimizer:
    """Return the optimiser, in float16 with a dynamic loss scale.

    Without the scale, small gradients would be zero.

    Args:
        optimizer: any.
        precision: one of `PRECISIONS`; bfloat16 has the range of float32 and needs no scale.
    """
    return keras.mixed_precision.LossScaleOptimizer(optimizer) if precision == "mixed_float16" else optimizer


def check_devices(model: keras.Model, optimizer: keras.optimizers.Optimizer, *, jit_compile: bool) -> None:
    """Refuse settings that train differently from one device with the global batch.

    Args:
        model: made in the scope of its strategy.
        optimizer: the one that it is compiled with.
        jit_compile: whether its step is to be compiled with XLA.

    Raises:
        InvalidInput: on several replicas, Keras 3.5 to 3.9, XLA, a scaled loss (`mixed_float16`), batch normalisation
            by each replica's part of a batch, or a strategy other than `MirroredStrategy` and
            `MultiWorkerMirroredStrategy`.
    """
    strategy = model.distribute_strategy
    name, count = type(strategy).__name__, strategy.num_replicas_in_sync
    if isinstance(strategy, tf.distribute.experimental.ParameterServerStrategy):
        expected = "MirroredStrategy or MultiWorkerMirroredStrategy"
        raise invalid("strategy", received=name, expected=expected, fix="Its replicas have no batch in common.")
    if count == 1:
        return
    if (3, 0) <= KERAS_VERSION < (3, 10):  # whose weights (before 3.8) and reported losses are others
        received, expected = ".".join(map(str, KERAS_VERSION)), f"3.10 or newer, or 2.15, on {count} replicas"
        raise invalid("version of Keras", received=received, expected=expected, fix="pip install --upgrade keras")
    if not isinstance(strategy, _STRATEGIES):
        raise invalid("strategy", received=name, expected="MirroredStrategy or MultiWorkerMirroredStrategy")
    if jit_compile:
        expected = f"False on several replicas (here {count})"
        raise invalid("jit_compile", received=True, expected=expected, fix="XLA has no gathering of batches here.")
    if isinstance(optimizer, keras.mixed_precision.LossScaleOptimizer):
        fix = "Use the policy mixed_bfloat16, whose range needs no scale."
        expected = f"no scaled loss on several replicas (here {count})"
        raise invalid("optimizer", received="LossScaleOptimizer", expected=expected, fix=fix)
    parts = [layer.name for layer in _batch_normalizations(model) if not layer.synchronized]
    if parts:
        raise invalid(
            f"batch normalisation on {count} replicas",
            received=", ".join(parts[:3]) + (" and others" if len(parts) > 3 else ""),
            expected="layers that are frozen (trainable=False), or have synchronized=True",
            fix="Otherwise each replica normalises by its own part of the batch.",
        )


def check_micro_batches(network: keras.Model, *, jit_compile: bool) -> None:
    """Refuse a network whose rows depend on the batch, or whose second call differs.

    Args:
        network: that is called on parts of a batch.
        jit_compile: whether the step is compiled with XLA, which needs parts of fixed sizes.

    Raises:
        InvalidInput: XLA, or a layer with statistics of the batch, with random numbers, that collects features, or with
            a regulariser of activities.
    """
    if jit_compile:
        raise invalid("jit_compile", received=True, expected="False with micro_batch")
    if objection := objection_to_parts(network):
        raise invalid("micro_batch", received="a size", expected=f"none with {objection}")


def objection_to_parts(network: keras.layers.Layer) -> str:
    """Name a layer that parts of a batch would change, and why; empty: none."""
    of_batches = _batch_normalizations(network)
    for layer in network._flatten_layers(include_self=False, recursive=True):
        reason = ""
        if layer in of_batches:
            reason = "whose statistics would be those of a part of the batch: freeze it"
        elif getattr(layer, "seed_generator", None) or getattr(layer, "_random_generator", None):
            reason = "whose random numbers differ in the second pass"
        elif getattr(layer, "collects_features", False):
            reason = "which would collect features in both passes"
        elif getattr(layer, "activity_regularizer", None):
            reason = "whose regularisation of activities would be that of a part"
        if reason:
            return f"{layer.name} ({type(layer).__name__}), {reason}"
    return ""


def synchronize_batch_normalization(model: keras.Model) -> None:
    """Synchronise the statistics of trained batch normalisations across replicas.

    Args:
        model: whose layers are changed, before it is compiled; without effect on one device.

    Raises:
        InvalidInput: Keras 2, whose layers must be made with `synchronized=True`.
    """
    layers = [layer for layer in _batch_normalizations(model) if not layer.synchronized]
    if layers and not IS_KERAS_3:
        expected = "frozen layers, or layers made with synchronized=True"
        fix = "Use --frozen_batch_norm or Keras 3."
        raise invalid("batch normalisation of Keras 2", received=layers[0].name, expected=expected, fix=fix)
    for layer in layers:
        layer.synchronized = True


def _batch_normalizations(model: keras.layers.Layer) -> list[keras.layers.Layer]:
    """Return the layers that use batch statistics in training."""
    layers = model._flatten_layers(include_self=False, recursive=True)
    return [layer for layer in layers if isinstance(layer, keras.layers.BatchNormalization) and layer.trainable]
