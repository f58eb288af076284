"""Masks of positive (same class) and negative pairs of two labelled sets."""

from __future__ import annotations

import tensorflow as tf

from common.errors import invalid


def integer_labels(labels: tf.types.experimental.TensorLike) -> tf.Tensor:
    """Cast labels of any integer type to int64, so that large ids stay distinct.

    Args:
        labels: integers, `[n]`.

    Returns:
        int64 `[n]`.

    Raises:
        InvalidInput: the labels are not integers (float32 makes ids above 2^24 equal) or not a vector.
    """
    labels = tf.convert_to_tensor(labels)
    if not labels.dtype.is_integer:
        raise invalid(
            "labels",
            received=labels.dtype.name,
            expected="an integer type",
            fix="Class ids above 2^24 collide in float32.",
        )
    if labels.shape.rank not in (1, None):
        raise invalid(
            "shape of labels", received=tuple(labels.shape), expected="[batch]", fix="Use tf.reshape(labels, [-1])."
        )
    return tf.cast(labels, tf.int64)


def pair_masks(
    labels: tf.Tensor, reference_labels: tf.Tensor | None = None, valid: tf.Tensor | None = None
) -> tuple[tf.Tensor, tf.Tensor]:
    """Return the positive and negative pairs of a batch and a reference set.

    Args:
        labels: integers, `[batch]`.
        reference_labels: integers, `[references]`; None compares the batch with itself, without self-pairs.
        valid: bool, `[references]`: the references that take part; None: all of them.

    Returns:
        Two bool tensors `[batch, references]`: pairs of the same class, pairs of different classes. A pair in neither
        is a self-pair or has a reference that is not valid.
    """
    labels = integer_labels(labels)
    columns = labels if reference_labels is None else integer_labels(reference_labels)
    same = labels[:, None] == columns[None, :]  # [batch, references]
    positive, negative = same, tf.logical_not(same)
    if reference_labels is None:
        positive = tf.linalg.set_diag(same, tf.zeros_like(labels, tf.bool))
    if valid is not None:
        valid = tf.cast(valid, tf.bool)[None, :]
        positive, negative = positive & valid, negative & valid
    return positive, negative


def consecutive_labels(labels: tf.Tensor) -> tf.Tensor:
    """Rename labels to 0, 1, 2, ... by size; equal labels stay equal.

    Like `tf.unique`, but with a bound that is known in advance, which XLA needs.

    Args:
        labels: integers, `[n]`.

    Returns:
        int64 `[n]`, each in 0..n-1.
    """
    labels = integer_labels(labels)
    order = tf.argsort(labels, stable=True)
    ordered = tf.gather(labels, order)
    starts = tf.cast(ordered[1:] != ordered[:-1], tf.int64)  # [n - 1], 1 where a new label begins
    ranks = tf.cumsum(tf.pad(starts, [[1, 0]]))[: tf.size(labels)]
    return tf.gather(ranks, tf.argsort(order))
