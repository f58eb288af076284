"""In which floating-point type a quantity is computed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import tensorflow as tf
from tensorflow import keras


def at_least_float32(x: tf.types.experimental.TensorLike) -> tf.Tensor:
    """Cast half precision and integers to float32; keep float32 and float64.

    Args:
        x: a tensor, array or nested list, any shape.

    Returns:
        A float32 or float64 tensor of the same shape.
    """
    x = tf.convert_to_tensor(x)
    return x if x.dtype in (tf.float32, tf.float64) else tf.cast(x, tf.float32)


def in_full_precision(layer_arguments: Mapping[str, Any]) -> dict:
    """Return layer keyword arguments with a `dtype` of float64 if requested, else float32.

    The global policy counts if no `dtype` is given. Norms, powers, Gram matrices and softmaxes lose their meaning in
    half precision. They are a small part of a network, so full precision costs little. Such a layer casts
    half-precision inputs up and returns float32.

    Args:
        layer_arguments: keyword arguments of a layer's constructor.
    """
    dtype = layer_arguments.get("dtype") or keras.mixed_precision.global_policy()
    dtype = dtype["config"]["name"] if isinstance(dtype, dict) else dtype  # as a configuration holds it
    name = dtype if isinstance(dtype, str) else dtype.name
    return {**layer_arguments, "dtype": "float64" if name == "float64" else "float32"}
