"""Numbers of positions."""

from __future__ import annotations

import tensorflow as tf

from common.ops.shapes import InputShape


def num_positions(features: tf.Tensor, mask: tf.Tensor | None = None) -> tf.Tensor:
    """Return the number of positions, or of those that `mask` allows.

    Args:
        features: `[batch, positions, channels]`.
        mask: boolean `[batch, positions]`, or None.

    Returns:
        `[batch, 1]`, or `[1, 1]` without a mask, in the type of the features.
    """
    if mask is not None:
        return tf.reduce_sum(tf.cast(mask, features.dtype), axis=1, keepdims=True)
    return tf.cast(tf.reshape(tf.shape(features)[1], [1, 1]), features.dtype)


def static_num_positions(input_shape: InputShape, data_format: str) -> int | None:
    """Return the number of positions in a shape; None if a size is open.

    Args:
        input_shape: of feature maps or token sequences.
        data_format: "channels_last" or "channels_first".
    """
    channels_first = len(input_shape) == 4 and data_format == "channels_first"
    sizes = input_shape[2:] if channels_first else input_shape[1:-1]
    positions = 1
    for size in sizes:
        if size is None:
            return None
        positions *= size
    return int(positions)
