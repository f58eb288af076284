"""Warnings when alternating projections are unlikely to help, in time to stop.

Each function returns a sentence, or None if the condition is met. The limits are this project's; docs/results/ccp.md
gives the reasons.
"""

from __future__ import annotations

POINT = 0.01  # of a metric in [0, 1]
FAR_APART = 1.0  # of unit vectors: 60 degrees


def started_early(metric: str, values: list[float], patience: int) -> str | None:
    """Return a warning if the in-batch loss still improved at the start.

    Args:
        metric: its name.
        values: of all evaluations before, in order.
        patience: evaluations without improvement that count as convergence.
    """
    waited = len(values) - 1 - values.index(max(values))
    if len(values) < 2 or waited >= patience:
        return None
    return (
        f"the first projection problem begins while validation still rises: of {len(values)} evaluations of the "
        f"in-batch loss the best ({metric} {max(values):.4f}) is number {len(values) - waited}. CCP needs a loss that "
        "has converged: begin later, or when it has (ccp_start_patience)."
    )


def fell_behind(metric: str, value: float, evaluations: int, best_in_batch: float | None) -> str | None:
    """Return a warning if the first problem trails the in-batch loss.

    The limit is a point.

    Args:
        metric: its name.
        value: after `evaluations` evaluations of the first problem.
        evaluations: how many.
        best_in_batch: the best value before that problem, or None.
    """
    if best_in_batch is None or value >= best_in_batch - POINT:
        return None
    return (
        f"{evaluations} evaluations into the first projection problem, {metric} is {value:.4f}, below the "
        f"{best_in_batch:.4f} of the in-batch loss: its proxies take the training away from what was reached. A lower "
        "learning rate, or the loss without CCP, may do better."
    )


def come_apart(radius: float | None, normalization: str) -> str | None:
    """Return a warning if converged proxies are far from their classes' samples.

    Args:
        radius: mean covering radius of the classes by them, or None.
        normalization: how the loss compares; distances of `none` have no scale.
    """
    if radius is None or radius <= FAR_APART or normalization == "none":
        return None
    return (
        f"the mean covering radius of the classes by their converged proxies is {radius:.2f}, above {FAR_APART:g}: "
        "proxies and samples have come apart, and new proxies will be a jump. Let proxies learn more slowly "
        "(proxy_multiplier), or everything (learning_rate)."
    )


def alternation_stopped(metric: str, failures: int, best: float, best_before: float) -> str:
    """Return the warning that no further problem begins.

    Args:
        metric: its name.
        failures: problems in a row that went back.
        best: of the last of them.
        best_before: at θ*.
    """
    return (
        f"{failures} projection problems in a row have ended below {metric} {best_before:.4f} of the weights that "
        f"they began from, the last at {best:.4f}: no other begins, and training continues without new proxies."
    )
