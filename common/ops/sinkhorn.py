"""Balanced entropic optimal transport."""

from __future__ import annotations

import tensorflow as tf

from common.errors import check_positive
from common.ops.precision import at_least_float32

LOG_OF_ZERO = -1e30  # the logarithm of a marginal without mass: finite, so that no gradient is infinity minus infinity


def balanced_transport_plan(
    costs: tf.Tensor,
    smoothing: float,
    num_iterations: int,
    row_mass: tf.Tensor | None = None,
    column_mass: tf.Tensor | None = None,
) -> tf.Tensor:
    """Move the mass of the rows to the columns, cheaply and evenly spread.

        P = argmin_P sum_ij P_ij C_ij + (1/smoothing) sum_ij P_ij log P_ij,    P 1 = row_mass,  Pᵀ 1 = column_mass

    Sinkhorn's iteration in the log domain, where no kernel `exp(-smoothing C)` can overflow or vanish: potentials of
    rows and columns are brought to their marginals in turn, columns last. So the columns have their mass to rounding
    after any number of iterations, and the rows once the iteration has converged.

    Reference: M. Cuturi, "Sinkhorn distances: lightspeed computation of optimal transport", 2013; thesis section 5.3.5
    (OTP; `smoothing` is the inverse of the weight of the entropy). Gradient: of the unrolled iteration, exact for the
    number of iterations made.

    Args:
        costs: C, `[..., rows, columns]`.
        smoothing: > 0; the larger, the sharper.
        num_iterations: pairs of updates, at least 1.
        row_mass: `[..., rows]`, at least 0; None for 1/rows each.
        column_mass: `[..., columns]`, at least 0, the same total as the rows'; None for 1/columns each.

    Returns:
        P, `[..., rows, columns]`, at least float32.

    Raises:
        InvalidInput: `smoothing` or `num_iterations` is not positive.
    """
    check_positive("smoothing", smoothing)
    check_positive("num_iterations", num_iterations)
    costs = at_least_float32(costs)
    log_kernel = -smoothing * costs
    log_rows = _log_mass(row_mass, tf.shape(costs)[-2], costs.dtype)
    log_columns = _log_mass(column_mass, tf.shape(costs)[-1], costs.dtype)
    # Not [..., None], which no ONNX converter takes: [..., rows, 1] and [..., 1, columns].
    log_rows, log_columns = tf.expand_dims(log_rows, -1), tf.expand_dims(log_columns, -2)

    def columns_from(rows: tf.Tensor) -> tf.Tensor:
        return log_columns - tf.reduce_logsumexp(rows + log_kernel, axis=-2, keepdims=True)

    rows = tf.zeros_like(costs[..., :1])
    for _ in range(num_iterations):
        rows = log_rows - tf.reduce_logsumexp(columns_from(rows) + log_kernel, axis=-1, keepdims=True)
    return tf.exp(rows + log_kernel + columns_from(rows))


def _log_mass(mass: tf.Tensor | None, count: tf.Tensor, dtype: tf.DType) -> tf.Tensor:
    """Return the log of a marginal `[..., count]`, or of the uniform one."""
    if mass is None:
        return -tf.math.log(tf.cast(count, dtype)) * tf.ones([count], dtype)
    mass = tf.cast(mass, dtype)
    return tf.where(mass > 0.0, tf.math.log(tf.where(mass > 0.0, mass, 1.0)), LOG_OF_ZERO)
