"""The scalar dual of the transport problem: one strictly increasing equation in one unknown a problem."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import tensorflow as tf

EXACT_STEPS = (
    16  # enough for every problem tried: spreads of smoothing x cost up to 2,000, ratios from 1e-2 to 1 - 1e-6
)
POLISHING_STEPS = 4  # how many of them are spent on the second phase


class Dual(NamedTuple):
    """The equation `sum_j valid_j sigmoid(tau - e d_j + l_j) = n mu`, tensors of one dtype.

    Attributes:
        nearest_cost: d_j, the smallest cost of a position, `[..., positions]`.
        log_multiplicity: l_j = log sum_i exp(-e (c_ji - d_j)), from 0 to log(prototypes), `[..., positions]`.
        valid: 1 where there is a position and 0 where there is padding, `[..., positions]`, or None (all valid).
        ratio: mu in (0, 1), scalar or `[..., 1]`.
        whole, rest: the integer nearest to n mu, and n mu minus it; scalar or `[..., 1]`.
        smoothing: e, a number.
    """

    nearest_cost: tf.Tensor
    log_multiplicity: tf.Tensor
    valid: tf.Tensor | None
    ratio: tf.Tensor
    whole: tf.Tensor
    rest: tf.Tensor
    smoothing: float

    def logits(self, reference_cost):
        """`e (reference - d_j) + l_j`: exact differences where they matter, near the threshold."""
        return self.smoothing * (reference_cost - self.nearest_cost) + self.log_multiplicity

    def total(self, values):
        """The sum over valid positions, `[..., positions]` -> `[..., 1]`."""
        return tf.reduce_sum(values if self.valid is None else values * self.valid, axis=-1, keepdims=True)

    def totals(self, *values):
        """The sums of several tensors `[..., positions]`, `[..., 1]` each, for little more than the cost of one."""
        return tf.unstack(self.total(tf.stack(values)))

    def mean(self, values):
        """The mean over valid positions, `[..., positions]` -> `[..., 1]`; 0 if there are none."""
        return tf.math.divide_no_nan(self.total(values), self.total(tf.ones_like(values)))

    def bracket(self, logits):
        """The interval `[logit mu - max_j logits, logit mu - min_j logits]` that holds the solution."""
        target = self.target()
        largest = smallest = logits
        if self.valid is not None:
            largest = tf.where(self.valid > 0, logits, logits.dtype.min)
            smallest = tf.where(self.valid > 0, logits, logits.dtype.max)
        return (
            target - tf.reduce_max(largest, axis=-1, keepdims=True),
            target - tf.reduce_min(smallest, axis=-1, keepdims=True),
        )

    def target(self):
        """The logit of the transport ratio."""
        return tf.math.log(self.ratio) - tf.math.log(1.0 - self.ratio)


def solve_exactly(dual: Dual, num_steps: int = EXACT_STEPS):
    """Solves the dual in at most `num_steps` bracketed Newton steps; returns the logits tau + a_j `[..., positions]`.

    Two phases. The first is Newton on `logit M(tau) - logit mu`, M the mean of the sigmoids, from `logit mu - mean(a)`;
    a step that leaves the bracket is replaced by bisection. It finds the threshold cost tau / e to within rounding. The
    second measures all costs from there (so that float32 loses nothing even where e c is 1,000) and balances the two
    tails instead of the mass: with U = {j: logit_j > 0} and n mu = whole + rest,

        sum_{j not in U} sigmoid(logit_j) + (|U| - whole)  =  sum_{j in U} sigmoid(-logit_j) + rest

    where both sides are sums of numbers of one sign (a negative term moves to the other side). Newton on the difference
    of their logarithms is exact in one step when the weights saturate, where the mass itself is flat. A phase ends
    early once another step could not change the result: Newton squares the error.

    Reference: thesis (P2); the equation replaces the fixed point of Prop. 5.2.1, whose rate is mu or worse.
    """
    reference = dual.mean(dual.nearest_cost)
    logits = dual.logits(reference)
    shift = dual.target() - dual.mean(logits)
    shift = _iterate(_mass_step, dual, logits, shift, (3, num_steps - POLISHING_STEPS), settled=1e-2)
    logits = dual.logits(reference + shift / dual.smoothing)
    rounding = np.finfo(logits.dtype.as_numpy_dtype).eps ** 0.5
    shift = _iterate(_tail_step, dual, logits, tf.zeros_like(shift), (2, POLISHING_STEPS), settled=rounding)
    return logits + shift


def iterate_fixed_point(dual: Dual, costs, num_iterations: int):
    """The thesis' iteration from t = 1; returns the logits log t + a_j `[..., positions]`.

        rho = (1/n) (1 + t exp(-e c) 1)^-1,     t <- mu / (rho^T exp(-e c) 1)

    As printed, with its matrix-vector products in every step; only exp(-e c) is scaled by its largest entry, which t
    absorbs. (Since exp(-e c) 1 is constant, the loop could run on vectors; it is here to be compared with.)

    Reference: thesis Prop. 5.2.1 (ICCV Prop. 4.2 lost the inverse of rho). Converges linearly, with rate
    mean(s^2)/mu >= mu: 100 steps suffice up to mu of about .8.
    """
    smallest = tf.reduce_min(dual.nearest_cost, axis=-1, keepdims=True)
    kernel = tf.exp(dual.smoothing * (smallest[..., None] - costs))
    ones = tf.ones_like(kernel[..., 0, :])
    mass = dual.whole + dual.rest  # n mu

    def iterate(scale):
        left = 1.0 / (1.0 + scale * tf.linalg.matvec(kernel, ones))  # n rho, [..., positions]
        return (tf.math.divide_no_nan(mass, dual.total(left * tf.linalg.matvec(kernel, ones))),)

    start = (tf.exp(-dual.smoothing * smallest),)
    scale = tf.while_loop(lambda _: True, iterate, start, maximum_iterations=num_iterations)[0]
    return dual.logits(smallest) + tf.math.log(scale)


def _iterate(step, dual, logits, shift, num_steps, settled: float):
    """At least and at most so many steps: the rest is skipped when no problem moved further than `settled`."""
    fewest, most = num_steps
    state = (shift, *dual.bracket(logits))
    for _ in range(min(fewest, most)):
        before, state = state[0], step(dual, logits, *state)
    if most <= fewest:
        return state[0]

    def remaining_steps():
        last = state
        for _ in range(most - fewest):
            last = step(dual, logits, *last)
        return last[0]

    return tf.cond(tf.reduce_max(tf.abs(state[0] - before)) <= settled, lambda: state[0], remaining_steps)


def _mass_step(dual, logits, shift, low, high):
    """One Newton step on `logit M(shift) - logit mu`.

    The mass that is left behind is `sum (1 - s)`, rounded where it is tiny; the second phase makes good for it.
    """
    moved = tf.sigmoid(logits + shift)
    left = 1.0 - moved
    mass, rest, slope = dual.totals(moved, left, moved * left)
    residual = tf.math.log(mass) - tf.math.log(tf.maximum(rest, _tiny(rest))) - dual.target()
    newton = shift - residual * (mass * rest) / tf.maximum((mass + rest) * slope, _tiny(slope))
    return _safeguard(shift, newton, residual, low, high)


def _tail_step(dual, logits, shift, low, high):
    """One Newton step on `log(lower tail) - log(upper tail)`."""
    moved = logits + shift
    above = tf.cast(moved > 0, moved.dtype)
    tail = tf.sigmoid(-tf.abs(moved))
    upper_tail = above * tail
    lower_tail = tail - upper_tail
    others = 1.0 - tail
    num_above, lower, upper, lower_slope, upper_slope = dual.totals(
        above, lower_tail, upper_tail, lower_tail * others, upper_tail * others
    )
    excess = num_above - dual.whole
    lower += tf.nn.relu(excess) + (tf.nn.relu(dual.rest) - dual.rest)
    upper += tf.nn.relu(-excess) + tf.nn.relu(dual.rest)
    lower, upper = tf.maximum(lower, _tiny(lower)), tf.maximum(upper, _tiny(upper))
    residual = tf.math.log(lower) - tf.math.log(upper)
    slope = lower_slope / lower + upper_slope / upper
    newton = shift - residual / tf.maximum(slope, _tiny(slope))
    return _safeguard(shift, newton, residual, low, high)


def _safeguard(shift, newton, residual, low, high):
    """Narrows the bracket by the sign of the residual, and bisects where Newton left it (or is not a number)."""
    is_low = residual <= 0
    low, high = tf.where(is_low, shift, low), tf.where(is_low, high, shift)
    inside = (newton >= low) & (newton <= high)
    return tf.where(inside, newton, 0.5 * (low + high)), low, high


def _tiny(tensor):
    return tensor.dtype.as_numpy_dtype(2.0 ** (-120 if tensor.dtype == tf.float32 else -1000))
