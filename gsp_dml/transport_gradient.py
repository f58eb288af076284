"""The closed-form gradient of the transport problem, with its derivation.

The solution of (P2), see `partial_transport`, has one scalar unknown tau. With n positions, m prototypes, smoothing e:

    a_j = log sum_i exp(-e c_ji)        P_ji = exp(-e c_ji - a_j)           (softmax over prototypes)
    s_j = sigmoid(tau + a_j)            tau such that  mean_j s_j = mu      (the transported mass)
    p_j = s_j / (n mu)                  T_ji = p_j P_ji,  pi = mu T         (pooling weights; plan)

Let g_p and G be the derivatives of a loss with respect to p and T (G_ji already holds the derivative with respect to
the attributes z_i = sum_j T_ji). From dT_ji = dp_j P_ji + p_j dP_ji, the total derivative with respect to p_j is

    h_j = g_p_j + Gbar_j,               Gbar_j = sum_i P_ji G_ji.

The mass constraint ties tau to a and mu: with k = mean_j s_j (1 - s_j),

    mean_j s_j (1 - s_j) (dtau + da_j) = dmu      =>      dtau = dmu / k - sum_j w_j da_j,
    w_j = s_j (1 - s_j) / sum_l s_l (1 - s_l),
    dp_j = p_j (1 - s_j) (dtau + da_j) - p_j dmu / mu.

Collecting terms (n k w_j = s_j (1 - s_j), so that k cancels):

    dL/da_j  = p_j (1 - s_j) (h_j - hbar),        hbar = sum_j w_j h_j
    dL/dmu   = (hbar - sum_j p_j h_j) / mu
    dL/dc_ji = -e T_ji [ G_ji - Gbar_j + (1 - s_j) (h_j - hbar) ]

Every factor is bounded: nothing is divided by k, which vanishes when the weights saturate (all s_j near 0 or 1), and w
is a softmax of log s_j + log(1 - s_j). At mu = 1 all s_j are 1: the last term is zero and p_j = 1/n has no gradient.

Relation to the printed form (rho_j = (1 - s_j)/n, and c is transposed there): thesis Prop. 5.2.2 and ICCV Prop. 4.3 say
dL/dc = -e (pi * g_pi - n pi Diag(q - eta rho / k)), q = rho * g_rho + (pi * g_pi)^T 1, eta = rho^T g_rho - n q^T rho,
k = 1 - mu - n rho^T rho, which equals the above (there -eta/k = hbar). Errata: the last rho stands outside Diag( ) in
both texts (as printed the shapes do not fit, and every reading of it is wrong by 35 % or more); the thesis prints gamma
for e, 1_n for 1_m, and an element-wise rho rho for rho^T rho; in thesis App. B.3 a minus sign is missing in
d lambda / d c. The printed 1/k is 0/0 in float32 for saturated weights; the form above is not.
"""

from __future__ import annotations

from typing import NamedTuple

import tensorflow as tf


class TransportState(NamedTuple):
    """The backward pass's inputs from a solution, independent of the solver.

    Attributes:
        kernel: exp(e (min_l c_jl - c_ji)), `[..., positions, prototypes]`. P, the softmax over prototypes, is the
            kernel over its sums; it is not made.
        multiplicity: the sums of the kernel over prototypes, at least 1, `[..., positions]`.
        weights: p, the pooling weights, `[..., positions]`.
        slack: 1 - s, the share of each position that is left behind, `[..., positions]`.
        sensitivity: w, how strongly each position moves the threshold, sums to one, `[..., positions]`.
    """

    kernel: tf.Tensor
    multiplicity: tf.Tensor
    weights: tf.Tensor
    slack: tf.Tensor
    sensitivity: tf.Tensor


def transport_gradient(
    state: TransportState, weights_gradient: tf.Tensor, plan_gradient: tf.Tensor | None, smoothing: float
) -> tuple[tf.Tensor, tf.Tensor]:
    """Return a loss's derivatives with respect to costs and log transport ratio.

        dL/dc_ji   = -e p_j P_ji [ G_ji - Gbar_j + (1 - s_j) (h_j - hbar) ]
        mu dL/dmu  = hbar - sum_j p_j h_j

    Reference: thesis Prop. 5.2.2 (corrected; derivation in the docstring of this module), ICCV Prop. 4.3.

    Args:
        state: of the solution.
        weights_gradient: derivative with respect to the pooling weights p, `[..., positions]`.
        plan_gradient: G, derivative with respect to T = plan / mu: `[..., positions, prototypes]`, or
            `[..., 1, prototypes]` if it is the same for all positions (the derivative with respect to the attributes),
            or None for zero.
        smoothing: e.

    Returns:
        The pair dL/dc `[..., positions, prototypes]` and mu dL/dmu `[..., 1]`.
    """
    total, mean_gradient = weights_gradient, 0.0
    if plan_gradient is not None:
        mean_gradient = _mean_over_prototypes(state, plan_gradient)  # [..., positions]
        total += mean_gradient
    threshold = tf.reduce_sum(state.sensitivity * total, axis=-1, keepdims=True)
    ratio_gradient = threshold - tf.reduce_sum(state.weights * total, axis=-1, keepdims=True)
    scale = -smoothing * state.weights / state.multiplicity
    bracket = (scale * (state.slack * (total - threshold) - mean_gradient))[..., None]
    if plan_gradient is not None:
        bracket += scale[..., None] * plan_gradient
    return state.kernel * bracket, ratio_gradient


def _mean_over_prototypes(state: TransportState, gradient: tf.Tensor) -> tf.Tensor:
    """Return `sum_i P_ji G_ji`."""
    if gradient.shape[-2] == 1:
        sums = tf.linalg.matvec(state.kernel, gradient[..., 0, :])
    else:
        sums = tf.reduce_sum(state.kernel * gradient, axis=-1)
    return sums / state.multiplicity
