"""Masks of positive (same class) and negative pairs of two labelled sets."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator

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


def are_all_right(right: tf.Tensor, labels: tf.Tensor, expected: str) -> tf.Tensor:
    """Check labels, and return for XLA, which drops checks, whether all are right.

    Args:
        right: bool, `[n]`.
        labels: numbers, `[n]`.
        expected: of the labels; begins the message, which ends with the first wrong one.

    Returns:
        A bool scalar, for `nan_unless`.

    Raises:
        tf.errors.InvalidArgumentError: a label is wrong (not inside XLA).
    """
    are_right = tf.reduce_all(right)
    first = tf.argmax(tf.pad(tf.cast(~right, tf.int32), [[0, 1]], constant_values=1))  # n, if none is wrong
    wrong = tf.pad(labels, [[0, 1]])[first]
    if tf.executing_eagerly() and not are_right:  # in one line, which an assertion does not make
        message = f"{expected} Received: {wrong.numpy()} at position {first.numpy()}."
        raise tf.errors.InvalidArgumentError(None, None, message)
    tf.debugging.Assert(are_right, [f"{expected} Received:", wrong, "at position", first])
    return are_right


@contextlib.contextmanager
def wrong_labels_in_one_line() -> Iterator[None]:
    """Remove TensorFlow's trace of the graph from errors of `are_all_right`."""
    try:
        yield
    except tf.errors.InvalidArgumentError as error:
        assertion = re.search(
            r"assertion failed: (\[Invalid .* Received:\] \[.*\] \[at position\] \[\d+\])", str(error)
        )
        if assertion is None:
            raise
        message = " ".join(re.findall(r"\[([^][]*)\]", assertion[1]))
        raise tf.errors.InvalidArgumentError(None, None, message) from None


def check_class_ids(labels: tf.Tensor, num_classes: int) -> tf.Tensor:
    """Check that integers `[n]` are in 0..num_classes-1; see `are_all_right`."""
    labels = integer_labels(labels)
    expected = f"Invalid labels: expected 0..{num_classes - 1}. Relabel the classes consecutively."
    return are_all_right((labels >= 0) & (labels < num_classes), labels, expected)


def nan_unless(condition: tf.Tensor, value: tf.Tensor) -> tf.Tensor:
    """Return a loss, or NaN with zero gradient unless the bool scalar holds."""
    return tf.where(condition, value, tf.constant(float("nan"), value.dtype))


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
