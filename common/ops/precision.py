"""In which floating-point type a quantity is computed."""

from __future__ import annotations

import tensorflow as tf


def at_least_float32(x: tf.types.experimental.TensorLike) -> tf.Tensor:
    """Casts half precision (float16, bfloat16) and integers to float32; leaves float32 and float64 as they are.

    Args:
        x: a tensor, array or nested list, any shape.

    Returns:
        A float32 or float64 tensor of the same shape.
    """
    x = tf.convert_to_tensor(x)
    return x if x.dtype in (tf.float32, tf.float64) else tf.cast(x, tf.float32)
