"""Masked means and log-sum-exps; of an empty mask they are finite, with zero gradient."""

from __future__ import annotations

import tensorflow as tf

# How a loss puts the terms of an anchor's partners together: their sum, or per active partner (see the losses).


def masked_mean(values: tf.Tensor, mask: tf.Tensor, axis: int | None = None) -> tf.Tensor:
    """Return the mean of the values whose mask is set, or 0.

    Args:
        values: floats, any shape.
        mask: bool, the same shape.
        axis: the axis that the mean is over; None: all of them.

    Returns:
        `values` without the axis; a scalar without one.
    """
    count = tf.math.count_nonzero(mask, axis=axis)
    total = tf.reduce_sum(tf.where(mask, values, tf.zeros_like(values)), axis=axis)
    return total / tf.cast(tf.maximum(count, 1), values.dtype)


def mean_or_zero(values: tf.Tensor) -> tf.Tensor:
    """Return the mean of all values; 0 if there are none.

    Args:
        values: floats, any shape.

    Returns:
        A scalar.
    """
    return tf.reduce_sum(values) / tf.cast(tf.maximum(tf.size(values), 1), values.dtype)


def mean_of_nonzero(terms: tf.Tensor, axis: int | None = None) -> tf.Tensor:
    """Return the mean of the terms above zero (hinge losses), or 0.

    Args:
        terms: non-negative floats, any shape.
        axis: the axis that the mean is over; None: all of them.

    Returns:
        `terms` without the axis, a scalar without one; NaN if any term is. Its gradient leaves the number of such
        terms constant.
    """
    return masked_mean(terms, terms != 0.0, axis)


def log_sum_exp(logits: tf.Tensor, mask: tf.Tensor, axis: int = -1) -> tf.Tensor:
    """Return `log Σ exp(logits)` over the mask, without overflow; 0 if it is empty.

    Args:
        logits: floats, any shape.
        mask: bool, the same shape.
        axis: the axis that is summed over.

    Returns:
        `logits` without the axis. Exact gradient, zero where there are no members.
    """
    outside = tf.constant(float("-inf"), logits.dtype)
    members = tf.where(mask, logits, outside)
    highest = tf.stop_gradient(tf.reduce_max(members, axis=axis, keepdims=True))
    highest = tf.where(tf.math.is_finite(highest), highest, tf.zeros_like(highest))
    total = tf.reduce_sum(tf.exp(members - highest), axis=axis)  # at least 1, or 0 without members
    occupied = total != 0.0  # also where it is NaN
    logs = tf.math.log(tf.where(occupied, total, tf.ones_like(total)))
    return tf.where(occupied, logs + tf.squeeze(highest, axis), tf.zeros_like(total))


def log1p_sum_exp(logits: tf.Tensor, mask: tf.Tensor, axis: int = -1) -> tf.Tensor:
    """Return `log(1 + Σ exp(logits))` over the mask; 0 if it is empty.

    Args:
        logits: floats, any shape.
        mask: bool, the same shape.
        axis: the axis that is summed over.

    Returns:
        `logits` without the axis. Exact gradient, zero where there are no members.
    """
    logs = log_sum_exp(logits, mask, axis)
    return tf.where(tf.reduce_any(mask, axis=axis), tf.math.softplus(logs), tf.zeros_like(logs))


def softmax_means_by_group(
    values: tf.Tensor, valid: tf.Tensor, groups: tf.Tensor, num_groups: int | tf.Tensor, temperature: float
) -> tuple[tf.Tensor, tf.Tensor]:
    """Return means within groups of rows, weighted by softmax within each group.

    `mean_gb = Σ_{i in g} w_ib v_ib`, `w_ib = exp(v_ib / T) / Σ_{j in g} exp(v_jb / T)`. The temporaries have the size
    of `values` for any layout of the groups.

    Args:
        values: floats, `[rows, columns]`.
        valid: bool, `[rows, columns]`: the values that take part.
        groups: integers in 0..num_groups-1, `[rows]`.
        num_groups: integer.
        temperature: T, greater than 0.

    Returns:
        means: `[num_groups, columns]`; 0 for a group without valid rows.
        occupied: bool, `[num_groups, columns]`: whether the group has valid rows.
    """
    logits = tf.where(valid, values / temperature, tf.constant(float("-inf"), values.dtype))
    highest = tf.gather(tf.math.unsorted_segment_max(logits, groups, num_groups), groups)  # [rows, columns]
    highest = tf.stop_gradient(tf.where(tf.math.is_finite(highest), highest, tf.zeros_like(highest)))
    weights = tf.exp(logits - highest)
    totals = tf.math.unsorted_segment_sum(weights, groups, num_groups)
    sums = tf.math.unsorted_segment_sum(weights * values, groups, num_groups)
    occupied = totals != 0.0  # also where they are NaN
    return sums / tf.where(occupied, totals, tf.ones_like(totals)), occupied
