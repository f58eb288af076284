"""Entropy-smoothed partial transport from positions to prototypes: the problem behind generalized sum pooling.

    (P2)  min  sum_ji c_ji pi_ji + (1/e) (sum_ji pi_ji log pi_ji + sum_j rho_j log rho_j)   over pi, rho >= 0
          s.t. rho_j + sum_i pi_ji = 1/n for every j,   sum_ji pi_ji = mu

    p_j = (1/n - rho_j)/mu,   z_i = (1/mu) sum_j pi_ji

In closed form up to one scalar tau: p_j = sigmoid(tau + a_j)/(n mu) with a_j = log sum_i exp(-e c_ji), so this is an
attention whose logits are calibrated to a total mass. mu = 1 gives p_j = 1/n: average pooling. As mu -> 0 the weights
go to softmax(a); as e -> infinity, to the mu n positions nearest to a prototype.

Reference: thesis (P2), Prop. 5.2.1, 5.2.2, Claim 5.2.1 (the third constraint of the thesis' display should read
sum_ij pi_ij = mu); ICCV 2023 Prop. 4.2, 4.3. Here c is [positions, prototypes], the transpose of the printed form.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import tensorflow as tf

from common.errors import check_choice, check_fraction, check_positive, invalid
from common.ops.precision import at_least_float32
from gsp_dml.dual_solver import EXACT_STEPS, POLISHING_STEPS, Dual, iterate_fixed_point, solve_exactly
from gsp_dml.transport_gradient import TransportState, transport_gradient

SOLVERS = ("exact", "fixed_point")
GRADIENTS = ("closed_form", "unrolled")
FIXED_POINT_ITERATIONS = 100


class Transport(NamedTuple):
    """A solution.

    Attributes:
        weights: p, the pooling weights, `[..., positions]`: from 0 to 1/(n mu), they sum to one.
        attributes: z, the share of each prototype, `[..., prototypes]`: at least 0, they sum to one; or None.
        plan: pi, `[..., positions, prototypes]`: sums to mu; or None.
    """

    weights: tf.Tensor
    attributes: tf.Tensor | None
    plan: tf.Tensor | None


class _Problem(NamedTuple):
    """Settings of a problem besides its costs; `ratio` is None if only a tensor."""

    ratio: float | None
    valid: tf.Tensor | None
    smoothing: float
    solver: str
    num_iterations: int


def partial_transport(
    costs: tf.Tensor,
    transport_ratio: float | tf.Tensor,
    smoothing: float,
    *,
    solver: str = "exact",
    num_iterations: int | None = None,
    mask: tf.Tensor | None = None,
    gradient: str = "closed_form",
    return_attributes: bool = True,
    return_plan: bool = False,
    state: TransportState | None = None,
) -> Transport:
    """Move the share `transport_ratio` of the positions to prototypes, at least cost (P2).

    Gradient: closed form with respect to costs and transport ratio (`transport_gradient`), whatever the solver and its
    number of iterations; not meant to be differentiated twice. "unrolled" differentiates the iterations, to compare.

    Args:
        costs: c, `[..., positions, prototypes]`, any values whose product with the smoothing is finite. Computes in
            float32, or float64 if costs are. (The fixed point needs more steps the larger that product is.)
        transport_ratio: mu, a number in (0, 1], or a tensor `[]` or `[...]` with values in (0, 1), clipped to it.
        smoothing: e (the thesis' epsilon), a number above 0: the larger, the sharper the selection.
        solver: "exact" (Newton, converges for any setting) or "fixed_point" (thesis Prop. 5.2.1).
        num_iterations: most steps of the exact solver (None: 16), or steps of the fixed point (None: 100).
        mask: boolean `[..., positions]`, False where there is only padding; None means all positions count. A problem
            without any position has weights and attributes 0.
        gradient: "closed_form" or "unrolled".
        return_attributes: whether to return z.
        return_plan: whether to return pi.
        state: a precomputed `transport_state` of the same problem; skips solving.

    Returns:
        `Transport(weights, attributes, plan)`.

    Raises:
        InvalidInput: a setting is outside its range.

    Examples:
        >>> weights, attributes, _ = partial_transport(tf.random.uniform([8, 49, 64]), 0.3, 5.0)
    """
    check_choice("gradient", gradient, GRADIENTS)
    problem, costs, ratio_tensor = _problem_of(costs, transport_ratio, smoothing, solver, num_iterations, mask)
    if gradient == "unrolled":
        outputs = _outputs(_state_of(problem, costs, ratio_tensor), return_attributes, return_plan)
    else:
        outputs = list(_solve(problem, costs, ratio_tensor, state, (return_attributes, return_plan)))
    weights = outputs.pop(0)
    attributes = outputs.pop(0) if return_attributes else None
    return Transport(weights, attributes, outputs[0] * tf.expand_dims(ratio_tensor, -1) if return_plan else None)


def transport_state(
    costs: tf.Tensor,
    transport_ratio: float | tf.Tensor,
    smoothing: float,
    *,
    solver: str = "exact",
    num_iterations: int | None = None,
    mask: tf.Tensor | None = None,
) -> TransportState:
    """Solve the problem of `partial_transport` (same arguments); return its gradient's inputs."""
    return _state_of(*_problem_of(costs, transport_ratio, smoothing, solver, num_iterations, mask))


def _problem_of(
    costs: tf.Tensor,
    transport_ratio: float | tf.Tensor,
    smoothing: float,
    solver: str,
    num_iterations: int | None,
    mask: tf.Tensor | None,
) -> tuple[_Problem, tf.Tensor, tf.Tensor]:
    """Return the problem, its costs (0 at padding) and its ratio as tensor."""
    num_iterations = check_solver(solver, num_iterations)
    check_positive("smoothing", smoothing)
    costs = at_least_float32(costs)
    ratio, ratio_tensor = _ratio_of(transport_ratio, costs)
    valid = None
    if mask is not None:
        costs = tf.where(tf.cast(mask, tf.bool)[..., None], costs, 0.0)
        valid = tf.cast(mask, costs.dtype)
    return _Problem(ratio, valid, smoothing, solver, num_iterations), costs, ratio_tensor


def check_solver(solver: str, num_iterations: int | None) -> int:
    """Return the number of iterations of a solver, or raise `InvalidInput`."""
    check_choice("solver", solver, SOLVERS)
    if num_iterations is None:
        return EXACT_STEPS if solver == "exact" else FIXED_POINT_ITERATIONS
    smallest = POLISHING_STEPS + 1 if solver == "exact" else 1
    if num_iterations < smallest:
        expected = f"an integer of at least {smallest} for solver={solver!r}, or None for its default"
        raise invalid("num_iterations", received=num_iterations, expected=expected)
    return int(num_iterations)


def weight_perplexity(weights: tf.Tensor) -> tf.Tensor:
    """Return `exp(-sum_j p_j log p_j)`: the number of entries that share the weight.

    It is n (the number of positions) for average pooling and 1 for a single position; on attributes it counts the
    prototypes in use. Watch it in training: a small smoothing leaves the weights within a percent of uniform.

    Args:
        weights: `[..., positions]`, non-negative with sum one.

    Returns:
        `[...]`.
    """
    return tf.exp(-tf.reduce_sum(tf.math.xlogy(weights, weights), axis=-1))


def _solve(
    problem: _Problem,
    costs: tf.Tensor,
    ratio_tensor: tf.Tensor,
    known_state: TransportState | None,
    returned: tuple[bool, bool],
) -> tuple[tf.Tensor, ...]:
    """Return `_outputs` of the solution, with the closed-form gradient."""
    return_attributes, return_plan = returned

    @tf.custom_gradient
    def transport(
        costs: tf.Tensor, ratio_tensor: tf.Tensor
    ) -> tuple[tuple[tf.Tensor, ...], Callable[..., tuple[tf.Tensor, tf.Tensor | None]]]:
        state = _state_of(problem, costs, ratio_tensor) if known_state is None else known_state

        def backward(weights_gradient: tf.Tensor, *gradients: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor | None]:
            others = list(gradients)
            plan_gradient = others.pop(0)[..., None, :] if return_attributes else None
            if return_plan:
                plan_gradient = others[0] if plan_gradient is None else others[0] + plan_gradient
            costs_gradient, ratio_gradient = transport_gradient(
                state, weights_gradient, plan_gradient, problem.smoothing
            )
            return costs_gradient, ratio_gradient / ratio_tensor if problem.ratio is None else None

        return tuple(_outputs(state, return_attributes, return_plan)), backward

    return transport(costs, ratio_tensor)


def _outputs(state: TransportState, return_attributes: bool, return_plan: bool) -> list[tf.Tensor]:
    """Return [p, z if wanted, pi/mu if wanted]."""
    outputs, shares = [state.weights], state.weights / state.multiplicity
    if return_attributes:
        outputs.append(tf.linalg.matvec(state.kernel, shares, transpose_a=True))
    if return_plan:
        outputs.append(tf.expand_dims(shares, -1) * state.kernel)
    return outputs


def _state_of(problem: _Problem, costs: tf.Tensor, ratio_tensor: tf.Tensor) -> TransportState:
    """Solve (P2)."""
    valid, smoothing = problem.valid, problem.smoothing
    nearest_cost = tf.reduce_min(costs, axis=-1)
    kernel = tf.exp(smoothing * (tf.expand_dims(nearest_cost, -1) - costs))  # the difference first: it is exact
    multiplicity = tf.reduce_sum(kernel, axis=-1)
    if problem.ratio == 1.0:
        moved = tf.ones_like(nearest_cost) if valid is None else valid
        zeros = tf.zeros_like(nearest_cost)
        return TransportState(kernel, multiplicity, _normalized(moved), slack=zeros, sensitivity=zeros)
    whole, rest = _nearest_integer(nearest_cost, problem.ratio, ratio_tensor, valid)
    dual = Dual(nearest_cost, tf.math.log(multiplicity), valid, ratio_tensor, whole, rest, smoothing)
    if problem.solver == "exact":
        logits = solve_exactly(dual, problem.num_iterations)
    else:
        logits = iterate_fixed_point(dual, costs, problem.num_iterations)
    moved, slack = tf.sigmoid(logits), tf.sigmoid(-logits)
    log_sensitivity = -tf.abs(logits) - 2.0 * tf.math.softplus(-tf.abs(logits))  # log s_j (1 - s_j)
    if valid is not None:
        moved = moved * valid
        log_sensitivity = tf.where(valid > 0, log_sensitivity, -1e30)
    return TransportState(kernel, multiplicity, _normalized(moved), slack, _shares_of_exponentials(log_sensitivity))


def _shares_of_exponentials(logits: tf.Tensor) -> tf.Tensor:
    """Return the softmax over the last axis, four times faster than TensorFlow's here."""
    exponentials = tf.exp(logits - tf.reduce_max(logits, axis=-1, keepdims=True))
    return exponentials / tf.reduce_sum(exponentials, axis=-1, keepdims=True)


def _normalized(moved: tf.Tensor) -> tf.Tensor:
    """Scale weights to sum one; a problem without positions keeps zeros."""
    total = tf.reduce_sum(moved, axis=-1, keepdims=True)
    return moved / tf.maximum(total, np.finfo(moved.dtype.as_numpy_dtype).tiny)


def _ratio_of(transport_ratio: float | tf.Tensor, costs: tf.Tensor) -> tuple[float | None, tf.Tensor]:
    """Return the transport ratio as number (None for tensors) and tensor `[..., 1]`."""
    if not isinstance(transport_ratio, (tf.Tensor, tf.Variable)):
        ratio = float(check_fraction("transport_ratio", transport_ratio))
        return ratio, tf.constant([ratio], costs.dtype)
    largest = 1.0 - np.finfo(costs.dtype.as_numpy_dtype).epsneg
    ratio = tf.clip_by_value(tf.cast(transport_ratio, costs.dtype), 1e-6, largest)[..., None]
    return None, tf.broadcast_to(ratio, tf.shape(costs[..., 0, :1]))  # [..., 1]


def _nearest_integer(
    like: tf.Tensor, ratio: float | None, ratio_tensor: tf.Tensor, valid: tf.Tensor | None
) -> tuple[tf.Tensor, tf.Tensor]:
    """Split the mass n mu into (integer, rest), keeping a small rest's digits."""
    if valid is None and ratio is not None and like.shape[-1] is not None:
        mass = like.shape[-1] * ratio
        return tf.constant(round(mass), like.dtype), tf.constant(mass - round(mass), like.dtype)
    count = tf.shape(like)[-1] if valid is None else tf.reduce_sum(valid, axis=-1, keepdims=True)
    mass = tf.cast(count, tf.float64) * (tf.cast(ratio_tensor, tf.float64) if ratio is None else ratio)
    return tf.cast(tf.round(mass), like.dtype), tf.cast(mass - tf.round(mass), like.dtype)
