"""In which floating-point type the poolings compute."""

from __future__ import annotations

from tensorflow import keras


def in_full_precision(layer_arguments: dict) -> dict:
    """Layer keyword arguments whose `dtype` is float64 if that is asked for, else float32 under every policy.

    Norms, powers, Gram matrices and softmaxes of a pooling lose their meaning in half precision; a pooling is a small
    part of a network, so that full precision costs little. Such a layer casts half-precision features up and returns
    float32.

    Args:
        layer_arguments: keyword arguments of a layer's constructor.

    Returns:
        A copy with "dtype" set.
    """
    dtype = layer_arguments.get("dtype") or keras.backend.floatx()
    name = dtype if isinstance(dtype, str) else dtype.name
    return {**layer_arguments, "dtype": "float64" if name == "float64" else "float32"}
