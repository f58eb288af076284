"""The scalar dual of the transport problem: one strictly increasing equation per problem."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, TypeAlias

import numpy as np
import tensorflow as tf

EXACT_STEPS = (
    16  # enough for every problem tried: spreads of smoothing x cost up to 2,000, ratios from 1e-2 to 1 - 1e-6
)
WIDE_SPREAD = 2_000.0  # of smoothing x cost; beyond it the solution is sought around one position's cost
WIDE_STEPS = 64  # there, in a bracket about as wide as the number of positions has digits: fewer than ten in practice
POLISHING_STEPS = 4  # how many of them are spent on the second phase


class Dual(NamedTuple):
    """The dual `sum_j valid_j sigmoid(tau - e d_j + l_j) = n mu`.

    Attributes:
        nearest_cost: d_j, the smallest cost of a position, `[..., positions]`.
        log_multiplicity: l_j = log sum_i exp(-e (c_ji - d_j)), from 0 to log(prototypes), `[..., positions]`.
        valid: 1 at positions and 0 at padding, `[..., positions]`, or None (all valid).
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

    def logits(self, reference_cost: tf.Tensor) -> tf.Tensor:
        """Return `e (reference - d_j) + l_j`, with exact differences near the threshold."""
        return self.smoothing * (reference_cost - self.nearest_cost) + self.log_multiplicity

    def total(self, values: tf.Tensor) -> tf.Tensor:
        """Sum over valid positions, `[..., positions]` to `[..., 1]`."""
        return tf.reduce_sum(values if self.valid is None else values * self.valid, axis=-1, keepdims=True)

    def totals(self, *values: tf.Tensor) -> list[tf.Tensor]:
        """Sum several `[..., positions]` to `[..., 1]` each, at the cost of one."""
        return tf.unstack(self.total(tf.stack(values)))

    def mean(self, values: tf.Tensor) -> tf.Tensor:
        """Average over valid positions, `[..., positions]` to `[..., 1]`; 0 without any."""
        return tf.math.divide_no_nan(self.total(values), self.total(tf.ones_like(values)))

    def bracket(self, logits: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        """Return a bracket of the solution: logit mu minus `logits`' maximum and minimum."""
        target = self.target()
        largest = smallest = logits
        if self.valid is not None:
            largest = tf.where(self.valid > 0, logits, logits.dtype.min)
            smallest = tf.where(self.valid > 0, logits, logits.dtype.max)
        return (
            target - tf.reduce_max(largest, axis=-1, keepdims=True),
            target - tf.reduce_min(smallest, axis=-1, keepdims=True),
        )

    def target(self) -> tf.Tensor:
        """Return the logit of the transport ratio."""
        return tf.math.log(self.ratio) - tf.math.log(1.0 - self.ratio)


# One Newton step: of a dual, its logits, a shift and its bracket, to the next shift and bracket.
_Step: TypeAlias = Callable[[Dual, tf.Tensor, tf.Tensor, tf.Tensor, tf.Tensor], tuple[tf.Tensor, tf.Tensor, tf.Tensor]]


def solve_exactly(dual: Dual, num_steps: int = EXACT_STEPS) -> tf.Tensor:
    """Solve the dual in at most `num_steps` bracketed Newton steps; return its logits.

    The logits are tau + a_j, `[..., positions]`. The first of two phases is Newton on `logit M(tau) - logit mu`, M the
    mean of the sigmoids, from `logit mu - mean(a)`; a step that leaves the bracket is replaced by bisection. It finds
    the threshold cost tau / e up to rounding. The second measures all costs from there (so float32 loses nothing even
    at e c = 1,000) and balances the two tails instead of the mass. With U = {j: logit_j > 0} and n mu = whole + rest,

        sum_{j not in U} sigmoid(logit_j) + (|U| - whole)  =  sum_{j in U} sigmoid(-logit_j) + rest

    where both sides are sums of numbers of one sign (a negative term moves to the other side). Newton on the difference
    of their logarithms is exact in one step when the weights saturate and the mass itself is flat. A phase ends early
    once another step could not change the result: Newton squares the error.

    Reference: thesis (P2); the equation replaces the fixed point of Prop. 5.2.1, whose rate is mu or worse.
    """
    reference = dual.mean(dual.nearest_cost)
    logits = dual.logits(reference)
    shift = dual.target() - dual.mean(logits)
    shift = _iterate(_mass_step, dual, logits, shift, (3, num_steps - POLISHING_STEPS), settled=1e-2)
    logits = dual.logits(reference + shift / dual.smoothing)
    rounding = np.finfo(logits.dtype.as_numpy_dtype).eps ** 0.5
    shift = _iterate(_tail_step, dual, logits, tf.zeros_like(shift), (2, POLISHING_STEPS), settled=rounding)
    solution = logits + shift
    low, high = dual.bracket(logits)
    is_wide = high - low > WIDE_SPREAD
    return tf.cond(tf.reduce_any(is_wide), lambda: tf.where(is_wide, _solve_wide(dual), solution), lambda: solution)


def _solve_wide(dual: Dual) -> tf.Tensor:
    """Return the logits of problems whose costs differ too much for bisection.

    All but a few positions are saturated there. With n mu = k - 1 + f, 0 < f <= 1, the threshold is at the k-th
    smallest cost d_(k): measured from it, all l_j being in 0..l_max,

        log f - log(n - k + 1) - l_max  <=  tau  <=  log k - log(1 - f)

    since positions behind k hold at most (n - k + 1) exp(tau + l_max), and those up to k at least k (1 - exp(-tau)).
    Differences of costs from one of them are exact in the numbers that matter, however large the others are.
    """
    has_rest = dual.rest > 0.0
    rank = tf.maximum(tf.where(has_rest, dual.whole + 1.0, dual.whole), 1.0)  # k, scalar or [..., 1]
    share = tf.where(has_rest, dual.rest, 1.0 + dual.rest)  # f
    left = tf.where(has_rest, 1.0 - dual.rest, -dual.rest)  # 1 - f, with all of its digits
    costs = dual.nearest_cost if dual.valid is None else tf.where(dual.valid > 0, dual.nearest_cost, np.inf)
    places = tf.cast(tf.range(1, tf.shape(costs)[-1] + 1), costs.dtype)
    at_rank = tf.where(places == rank, tf.sort(costs, axis=-1), 0.0)
    logits = dual.logits(tf.stop_gradient(tf.reduce_sum(at_rank, axis=-1, keepdims=True)))
    behind = tf.maximum(dual.total(tf.ones_like(costs)) - rank, 0.0) + 1.0  # n - k + 1
    largest = tf.reduce_max(dual.log_multiplicity, axis=-1, keepdims=True)
    log_left = tf.math.log(tf.maximum(left, _tiny(left)))  # where nothing is left, the tails are 0 to rounding
    low, high = tf.math.log(share) - tf.math.log(behind) - largest, tf.math.log(rank) - log_left
    low, high = tf.broadcast_to(low, tf.shape(largest)), tf.broadcast_to(high, tf.shape(largest))
    start = tf.maximum(low, tf.minimum(high, tf.math.log(share) - log_left))  # as if k alone were not saturated
    rounding = np.finfo(logits.dtype.as_numpy_dtype).eps ** 0.5

    def step(
        shift: tf.Tensor, low: tf.Tensor, high: tf.Tensor, _: tf.Tensor
    ) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor, tf.Tensor]:
        moved, low, high = _tail_step(dual, logits, shift, low, high)
        return moved, low, high, tf.reduce_max(tf.abs(moved - shift))

    state = (start, low, high, tf.constant(np.inf, logits.dtype))
    state = tf.while_loop(lambda *state: state[3] > rounding, step, state, maximum_iterations=WIDE_STEPS)
    return logits + state[0]


def iterate_fixed_point(dual: Dual, costs: tf.Tensor, num_iterations: int) -> tf.Tensor:
    """Iterate as the thesis from t = 1; return log t + a_j.

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

    def iterate(scale: tf.Tensor) -> tuple[tf.Tensor]:
        left = 1.0 / (1.0 + scale * tf.linalg.matvec(kernel, ones))  # n rho, [..., positions]
        return (tf.math.divide_no_nan(mass, dual.total(left * tf.linalg.matvec(kernel, ones))),)

    start = (tf.exp(-dual.smoothing * smallest),)
    scale = tf.while_loop(lambda _: True, iterate, start, maximum_iterations=num_iterations)[0]
    return dual.logits(smallest) + tf.math.log(scale)


def _iterate(
    step: _Step, dual: Dual, logits: tf.Tensor, shift: tf.Tensor, num_steps: tuple[int, int], settled: float
) -> tf.Tensor:
    """Run the fewest steps, and the rest if a problem moved beyond `settled`."""
    fewest, most = num_steps
    state = (shift, *dual.bracket(logits))
    for _ in range(min(fewest, most)):
        before, state = state[0], step(dual, logits, *state)
    if most <= fewest:
        return state[0]

    def remaining_steps() -> tf.Tensor:
        last = state
        for _ in range(most - fewest):
            last = step(dual, logits, *last)
        return last[0]

    return tf.cond(tf.reduce_max(tf.abs(state[0] - before)) <= settled, lambda: state[0], remaining_steps)


def _mass_step(
    dual: Dual, logits: tf.Tensor, shift: tf.Tensor, low: tf.Tensor, high: tf.Tensor
) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
    """Take one Newton step on `logit M(shift) - logit mu`.

    The remaining mass is `sum (1 - s)`, rounded if it is tiny; the second phase corrects that.
    """
    moved = tf.sigmoid(logits + shift)
    left = 1.0 - moved
    mass, rest, slope = dual.totals(moved, left, moved * left)
    residual = tf.math.log(mass) - tf.math.log(tf.maximum(rest, _tiny(rest))) - dual.target()
    newton = shift - residual * (mass * rest) / tf.maximum((mass + rest) * slope, _tiny(slope))
    return _safeguard(shift, newton, residual, low, high)


def _tail_step(
    dual: Dual, logits: tf.Tensor, shift: tf.Tensor, low: tf.Tensor, high: tf.Tensor
) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
    """Take one Newton step on `log(lower tail) - log(upper tail)`."""
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


def _safeguard(
    shift: tf.Tensor, newton: tf.Tensor, residual: tf.Tensor, low: tf.Tensor, high: tf.Tensor
) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
    """Narrow the bracket by the residual's sign; bisect if Newton left it (or NaN)."""
    is_low = residual <= 0
    low, high = tf.where(is_low, shift, low), tf.where(is_low, high, shift)
    inside = (newton >= low) & (newton <= high)
    return tf.where(inside, newton, 0.5 * (low + high)), low, high


def _tiny(tensor: tf.Tensor) -> np.floating:
    return tensor.dtype.as_numpy_dtype(2.0 ** (-120 if tensor.dtype == tf.float32 else -1000))
