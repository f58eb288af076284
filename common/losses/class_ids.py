"""Labels as Keras hands them to a loss, made class ids again."""

from __future__ import annotations

import tensorflow as tf

from common.errors import invalid
from common.ops.pair_masks import are_all_right, is_label_matrix


def class_ids(
    labels: tf.types.experimental.TensorLike, beside: tf.TensorShape | None = None
) -> tuple[tf.Tensor, tf.Tensor]:
    """Return a batch's labels: class ids, also from Keras' floats, or bools.

    A float holds a whole number exactly up to a bound of its type: 2^11 for float16, 2^24 for float32, 2^53 for
    float64. Labels at the bound or beyond may already be those of other classes, so they are refused.

    Args:
        labels: `[batch]` or `[batch, 1]`; integers, or floats that are whole and below the bound of their type. Bools
            `[batch, classes]`, of several labels, are returned as they are.
        beside: shape of `y_pred`, for the message; None: not known.

    Returns:
        int64 `[batch]`, and a bool scalar: whether all of them are exact. XLA drops the error below, and not this.

    Raises:
        InvalidInput: another shape (one-hot numbers), or a type that is no number.
        tf.errors.InvalidArgumentError: floats that are not whole, or too large (not checked inside XLA).
    """
    labels = tf.convert_to_tensor(labels)
    if is_label_matrix(labels):
        return labels, tf.constant(True)
    if labels.shape.rank not in (None, 1) and tuple(labels.shape[1:]) != (1,):
        fix = (
            "Of one-hot labels: np.argmax(labels, axis=1). In a call of your own: loss(embeddings, labels). Several "
            "labels an image are bools [batch, classes]: labels.astype(bool)."
        )
        received = f"{tuple(labels.shape)}" + ("" if beside is None else f" as y_true, {tuple(beside)} as y_pred")
        raise invalid("shape of labels", received=received, expected="class ids [batch] or [batch, 1]", fix=fix)
    labels = tf.reshape(labels, [-1])
    if labels.dtype.is_integer:
        return tf.cast(labels, tf.int64), tf.constant(True)
    if not labels.dtype.is_floating:
        of_names = "Of names: np.unique(labels, return_inverse=True)[1]." if labels.dtype == tf.string else None
        raise invalid("labels", received=labels.dtype.name, expected="integers, or floats that are whole", fix=of_names)
    bits = {tf.bfloat16: 8, tf.float16: 11, tf.float32: 24, tf.float64: 53}[labels.dtype]
    values = tf.cast(labels, tf.float64)
    exact = (values == tf.round(values)) & (tf.abs(values) < 2.0**bits)
    expected = f"expected class ids that are whole and below 2^{bits}, for they are {labels.dtype.name}"
    are_exact = are_all_right(exact, values, f"Invalid labels: {expected}. Use integers of 64 bits.")
    return tf.cast(values, tf.int64), are_exact


def class_column(labels: tf.Tensor) -> tf.Tensor:
    """Return the class ids `[batch]` of labels `[batch]` or rows `[batch, 2]`.

    Bools `[batch, classes]` of several labels are returned as they are.
    """
    labels = tf.convert_to_tensor(labels)
    return labels[:, 0] if labels.shape.rank == 2 and not labels.dtype.is_bool else labels
