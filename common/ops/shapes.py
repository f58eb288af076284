"""The type of a shape as Keras hands it to layers."""

from __future__ import annotations

from typing import TypeAlias

import tensorflow as tf

# A tuple with None for sizes that are not known yet; in Keras 2 `build` gets a `TensorShape`.
InputShape: TypeAlias = tf.TensorShape | tuple[int | None, ...]
