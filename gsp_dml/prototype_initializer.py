"""Initial prototypes: random, given, or embeddings picked from a memory of training data."""

from __future__ import annotations

from typing import TypeAlias

import numpy as np
import tensorflow as tf
from tensorflow import keras

from common.errors import invalid
from common.ops.k_center import greedy_k_center

FEATURE_MEMORY = "feature_memory"
RANDOM = "random"
IMAGE_AVERAGES = "image_averages"

# What a user may give, and what `check_prototype_initializer` makes of it.
PrototypeInitializer: TypeAlias = str | dict | list | np.ndarray | keras.initializers.Initializer
CheckedInitializer: TypeAlias = str | np.ndarray | keras.initializers.Initializer

_GOLDEN_RATIO = 0.6180339887498949


def check_prototype_initializer(initializer: PrototypeInitializer, num_prototypes: int) -> CheckedInitializer:
    """Return "feature_memory", a Keras initializer, or an array; or raise `InvalidInput`.

    Args:
        initializer: "feature_memory", "random" (normal vectors of length about 1), a Keras initializer, its name or
            its configuration, or an array or nested list `[prototypes, channels]`.
        num_prototypes: the first dimension that an array must have.
    """
    if isinstance(initializer, str) and initializer in (FEATURE_MEMORY, RANDOM):
        return initializer
    if isinstance(initializer, (keras.initializers.Initializer, dict)):
        return keras.initializers.get(initializer)
    expected = f"'feature_memory', 'random', a Keras initializer or an array [{num_prototypes}, channels]"
    try:
        if isinstance(initializer, str):
            return keras.initializers.get(initializer)
        array = np.asarray(initializer, dtype=np.float64)
    except (TypeError, ValueError):
        raise invalid("prototype_initializer", received=initializer, expected=expected) from None
    if array.ndim != 2 or array.shape[0] != num_prototypes or not np.isfinite(array).all():
        raise invalid("prototype_initializer", received=f"an array of shape {array.shape}", expected=expected)
    return array


def weight_initializer(initializer: CheckedInitializer, num_channels: int) -> keras.initializers.Initializer:
    """Return the Keras initializer of the prototype weights for a checked `prototype_initializer`."""
    if isinstance(initializer, str):
        return keras.initializers.RandomNormal(stddev=num_channels**-0.5)
    if isinstance(initializer, np.ndarray):
        if initializer.shape[1] != num_channels:
            expected = f"an array with {num_channels} columns, the channels of the features"
            raise invalid("prototype_initializer", received=f"an array of shape {initializer.shape}", expected=expected)
        return keras.initializers.Constant(initializer)
    return initializer


def serialized_initializer(initializer: CheckedInitializer) -> str | list | dict:
    """Convert a checked `prototype_initializer` to JSON types."""
    if isinstance(initializer, np.ndarray):
        return initializer.tolist()
    return initializer if isinstance(initializer, str) else keras.initializers.serialize(initializer)


def one_feature_an_image(features: tf.Tensor, mask: tf.Tensor | None, first_image: tf.Tensor) -> tf.Tensor:
    """Return one feature per image, at positions evenly spread without randomness.

    Args:
        features: `[batch, positions, channels]`.
        mask: boolean `[batch, positions]`, or None.
        first_image: how many images were seen before, integer scalar; position r of n is frac(0.618 image) n.

    Returns:
        `[batch, channels]`.
    """
    batch = tf.shape(features)[0]
    images = tf.cast(first_image, tf.float64) + tf.cast(tf.range(batch), tf.float64)
    draws = images * _GOLDEN_RATIO - tf.floor(images * _GOLDEN_RATIO)  # in [0, 1)
    valid = tf.ones(tf.shape(features)[:2], tf.float64) if mask is None else tf.cast(mask, tf.float64)
    ranks = tf.floor(draws * tf.reduce_sum(valid, axis=1))  # 0-based rank of the valid position to take
    positions = tf.argmax(
        tf.cast(tf.cumsum(valid, axis=1) > ranks[:, None], tf.int32), axis=1
    )  # the first for which it is true
    return tf.gather(features, positions, axis=1, batch_dims=1)


def remember(memory: tf.Tensor, count: tf.Tensor, embeddings: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
    """Append a batch to a memory; drop the rows that exceed it.

    Args:
        memory: `[memory, channels]`; its first `count` rows are in use.
        count: integer scalar; if negative, the first -count vectors are dropped.
        embeddings: `[batch, channels]`.

    Returns:
        The new memory `[memory, channels]` and the new count.
    """
    batch = tf.shape(embeddings, out_type=count.dtype)[0]
    memory_size = memory.shape[0]
    source = (
        tf.range(memory_size, dtype=count.dtype) - count
    )  # the row of the batch that goes to each row of the memory
    is_new = (source >= 0) & (source < batch)
    rows = tf.gather(embeddings, tf.clip_by_value(source, 0, batch - 1))
    return tf.where(is_new[:, None], rows, memory), tf.minimum(count + batch, memory_size)


def pick_prototypes(memory: tf.Tensor, num_prototypes: int) -> tf.Tensor:
    """Pick prototypes from a memory by greedy k-center; its first m vectors only repel.

    Reference: the published code (the thesis does not state the start of prototypes): the first m of 1,024 image-level
    embeddings are the initial set of thesis Algorithm 2, and m more are picked. With fewer than 2 m vectors only the
    spare ones repel.

    Args:
        memory: `[memory, channels]`, at least `num_prototypes` rows.
        num_prototypes: m.

    Returns:
        `[num_prototypes, channels]`. No gradient.
    """
    num_seeds = min(num_prototypes, memory.shape[0] - num_prototypes)
    seeds = memory[:num_seeds] if num_seeds > 0 else None
    candidates = memory[max(num_seeds, 0) :]
    return tf.gather(candidates, greedy_k_center(candidates, num_prototypes, initial=seeds))
