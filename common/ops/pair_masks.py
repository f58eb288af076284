"""Masks of positive (same class) and negative pairs of two labelled sets."""

from __future__ import annotations

import contextlib
import contextvars
import re
from collections.abc import Iterator

import tensorflow as tf

from common.errors import invalid

_FIX = (
    "Losses of pairs take bools [batch, classes], such as ContrastiveLoss, TripletLoss, MultiSimilarityLoss, "
    "SupervisedContrastiveLoss and SmoothAPLoss; CrossBatchMemoryLoss takes them with num_classes. Losses with proxies "
    "or groups of classes do not."
)


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
    if labels.dtype.is_bool:
        raise invalid("labels", received="bools, of several labels an image", expected="one class id each", fix=_FIX)
    if not labels.dtype.is_integer:
        raise invalid(
            "labels",
            received=labels.dtype.name,
            expected="an integer type",
            fix="Class ids above 2^24 collide in float32.",
        )
    if labels.shape.rank not in (1, None):
        fix = "Of a column: tf.reshape(labels, [-1]). Of one-hot labels: np.argmax(labels, axis=1)."
        raise invalid("shape of labels", received=tuple(labels.shape), expected="[batch]", fix=fix)
    return tf.cast(labels, tf.int64)


def batch_labels(labels: tf.types.experimental.TensorLike) -> tf.Tensor:
    """Return int64 class ids `[n]`, or bool matrices of several labels as they are.

    Args:
        labels: integers `[n]`, or bools `[n, classes]`: the classes of each image, perhaps none.

    Raises:
        InvalidInput: as `integer_labels`; a vector of bools.
    """
    labels = tf.convert_to_tensor(labels)
    return labels if is_label_matrix(labels) else integer_labels(labels)


def is_label_matrix(labels: tf.Tensor) -> bool:
    """Return whether labels are a bool matrix `[n, classes]`."""
    return labels.dtype.is_bool and labels.shape.rank == 2


def share_a_label(labels: tf.Tensor, others: tf.Tensor) -> tf.Tensor:
    """Return which pairs have a label in common, bool `[n, others]`.

    Args:
        labels: from `batch_labels`, of n images.
        others: likewise, and of the same kind.

    Raises:
        InvalidInput: one side has several labels, the other class ids; or their numbers of classes differ.
    """
    kinds = [is_label_matrix(side) for side in (labels, others)]
    if not any(kinds):
        return labels[:, None] == others[None, :]
    if not all(kinds) or not labels.shape[1:].is_compatible_with(others.shape[1:]):
        received = f"{labels.dtype.name} {list(labels.shape)} and {others.dtype.name} {list(others.shape)}"
        expected = "class ids on both sides, or bools [n, classes] of the same classes"
        raise invalid("labels of batch and references", received=received, expected=expected, fix=_FIX)
    return tf.matmul(tf.cast(labels, tf.float32), tf.cast(others, tf.float32), transpose_b=True) > 0.0


_IS_UNCHECKED = contextvars.ContextVar("is_unchecked", default=False)


@contextlib.contextmanager
def unchecked_labels() -> Iterator[None]:
    """Let `are_all_right` only say whether labels are right."""
    token = _IS_UNCHECKED.set(True)
    try:
        yield
    finally:
        _IS_UNCHECKED.reset(token)


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
    if _IS_UNCHECKED.get():
        return are_right
    if tf.executing_eagerly():  # in one line, which an assertion does not make
        if not are_right:
            first = tf.argmin(right)
            message = f"{expected} Received: {labels[first].numpy()} at position {first.numpy()}."
            raise tf.errors.InvalidArgumentError(None, None, message)
        return are_right

    def fail() -> tf.Tensor:  # in a branch, for a GPU has no kernels for it
        first = tf.argmin(tf.cast(right, tf.int32))
        return tf.debugging.Assert(False, [f"{expected} Received:", labels[first], "at position", first])

    tf.cond(are_right, tf.no_op, fail)
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
        labels: integers `[batch]`, or bools `[batch, classes]` of several labels.
        reference_labels: likewise, of the references; None compares the batch with itself, without self-pairs.
        valid: bool, `[references]`: the references that take part; None: all of them.

    Returns:
        Two bool tensors `[batch, references]`: pairs that share a label, pairs that share none. A pair in neither is a
        self-pair or has a reference that is not valid.

    Raises:
        InvalidInput: as `integer_labels` and `share_a_label`.
    """
    labels = batch_labels(labels)
    columns = labels if reference_labels is None else batch_labels(reference_labels)
    same = share_a_label(labels, columns)  # [batch, references]
    positive, negative = same, tf.logical_not(same)
    if reference_labels is None:
        no_self = tf.zeros(tf.shape(labels)[:1], tf.bool)  # an image without labels shares none with itself
        positive, negative = tf.linalg.set_diag(positive, no_self), tf.linalg.set_diag(negative, no_self)
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
    ranks = tf.concat([tf.zeros([1], tf.int64), tf.cumsum(starts)], 0)[: tf.size(labels)]  # GPUs do not pad int64
    return tf.gather(ranks, tf.argsort(order))
