"""Feature maps as maps, for poolings that look at a position's neighbours."""

from __future__ import annotations

import tensorflow as tf

from common.errors import invalid
from common.ops.shapes import InputShape


def check_window(name: str, size: int) -> int:
    """Return a window's side if odd and at least 1, else raise `InvalidInput`."""
    if size < 1 or int(size) != size or size % 2 == 0:
        raise invalid(name, received=size, expected="an odd integer of at least 1")
    return int(size)


def check_has_neighborhoods(input_shape: InputShape, name: str, size: int) -> None:
    """Reject windows larger than 1 on token sequences, which have no rows.

    Args:
        input_shape: of a feature map or a token sequence.
        name: the argument that gives the window.
        size: the window's side.
    """
    if size > 1 and len(input_shape) != 4:
        raise invalid(
            "input shape",
            received=tuple(input_shape),
            expected="feature maps [batch, height, width, channels]",
            fix=f"Token sequences have no neighbours in two dimensions: use {name}=1.",
        )


def as_maps(values: tf.Tensor, features: tf.Tensor, data_format: str) -> tf.Tensor:
    """Lay out values of positions as the features are.

    Args:
        values: `[batch, positions, dim]`.
        features: `[batch, height, width, channels]` (or channels first), or `[batch, positions, channels]`.
        data_format: "channels_last" or "channels_first".

    Returns:
        `[batch, height, width, dim]`; tokens become `[batch, positions, 1, dim]`.
    """
    if len(features.shape) == 3:
        return values[:, :, None, :]
    first = 2 if data_format == "channels_first" else 1
    height, width = features.shape[first : first + 2]
    sizes = tf.shape(features)
    maps = tf.reshape(values, [sizes[0], sizes[first], sizes[first + 1], values.shape[-1]])
    return tf.ensure_shape(maps, [features.shape[0], height, width, values.shape[-1]])


def as_positions(maps: tf.Tensor) -> tf.Tensor:
    """Flatten `[batch, height, width, dim]` to `[batch, positions, dim]`, row by row."""
    sizes = tf.shape(maps)
    return tf.reshape(maps, [sizes[0], sizes[1] * sizes[2], maps.shape[-1]])
