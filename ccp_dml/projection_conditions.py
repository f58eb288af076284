"""Warnings when alternating projections are unlikely to help, in time to stop.

Each function returns a sentence, or None if the condition is met. The limits are this project's;
docs/results/figures.md gives the reasons.
"""

from __future__ import annotations

import numpy as np

from common.losses import ContrastiveLoss, CosineContrastiveLoss, MetricLoss
from common.losses.composed_loss import loss_of_kind

POINT = 0.01  # of a metric in [0, 1]
RECENT = 3  # evaluations
STILL_RISING = 0.1  # of the best value so far, gained in the recent evaluations
FEW_PUSHED = 0.01  # of the pairs of a sample and another class's proxy
FAR_APART = 2.0  # distance of samples to old proxies, as a multiple of that to new ones
_MOST_CLASSES = 256  # whose pairs are counted


def started_early(metric: str, values: list[float]) -> str | None:
    """Return a warning unless the in-batch loss has nearly stopped improving at the start.

    It has if the last three evaluations added at most a tenth of its best value. One evaluation cannot show that.

    Args:
        metric: its name.
        values: of all evaluations before, in order.
    """
    advice = "CCP needs a loss that has converged: begin later, or when it has (ccp_start_patience)."
    if len(values) < 2:
        place = f"after a single evaluation ({metric} {values[0]:.4f})" if values else "before any evaluation"
        return f"the first projection problem begins {place} of the in-batch loss. {advice}"
    best, before = max(values), max(values[: max(1, len(values) - RECENT)])
    if best - before <= STILL_RISING * best:
        return None
    return (
        "the first projection problem begins while validation still rises: the last "
        f"{min(RECENT, len(values) - 1)} of {len(values)} evaluations of the in-batch loss raised {metric} from "
        f"{before:.4f} to {best:.4f}. {advice}"
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


def come_apart(before: float | None, after: float, pushed: float | None) -> str | None:
    """Return a warning if converged proxies only pull samples away, to where classes meet.

    Then samples have contracted: they are far from their proxies and near one another, and no other class is near
    enough to be pushed. The distances are compared with each other, so their scale does not matter.

    Args:
        before: mean covering radius of the classes by their converged proxies, or None.
        after: the same by the samples that replace them.
        pushed: share of pairs of a sample and another class's proxy that the loss pushes apart, see `pushed_share`.
            None: unknown.
    """
    if before is None or before <= FAR_APART * after or (pushed is not None and pushed > FEW_PUSHED):
        return None
    share = "" if pushed is None else f" The loss pushes {100 * pushed:.1f} % of the pairs with other classes apart."
    return (
        f"the mean covering radius of the classes by their converged proxies is {before:.2f}, by members of the "
        f"classes {after:.2f}: proxies and samples have come apart, and the samples have drawn together.{share} Give a "
        "larger negative margin, or let everything learn more slowly (learning_rate)."
    )


def pushed_share(loss: object, pools: np.ndarray, proxies: np.ndarray) -> float | None:
    """Return the share of negative pairs inside the margin.

    Up to 256 classes, evenly chosen, are compared.

    Args:
        loss: perhaps made of others.
        pools: normalised `[classes, pool, dim]`.
        proxies: normalised `[classes, proxies, dim]`.

    Returns:
        None for a loss other than C1 and C2: without such a margin it pushes every pair.
    """
    if not isinstance(loss, MetricLoss) or len(pools) < 2:
        return None
    euclidean, cosine = loss_of_kind(loss, ContrastiveLoss), loss_of_kind(loss, CosineContrastiveLoss)
    if euclidean is None and cosine is None:
        return None
    chosen = np.linspace(0, len(pools) - 1, min(len(pools), _MOST_CLASSES)).astype(int)
    shares = []
    for row in chosen:
        others = proxies[chosen[chosen != row]].reshape(-1, proxies.shape[-1])
        products = pools[row] @ others.T
        if euclidean is not None:
            squared = (pools[row] ** 2).sum(axis=-1)[:, None] + (others**2).sum(axis=-1) - 2 * products
            shares.append(np.mean(squared < euclidean.negative_margin**2))
        elif cosine is not None:
            shares.append(np.mean(products > cosine.margin))
    return float(np.mean(shares))


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
