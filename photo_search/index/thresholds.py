"""Similarity thresholds: for a precision of labelled pairs, and for what is unknown."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, NamedTuple

import numpy as np

from common.errors import check_choice, invalid


class CalibratedThreshold(NamedTuple):
    """A threshold, and its precision and recall on the labelled pairs.

    Attributes:
        threshold: pairs at least this similar count as the same.
        precision: share of the same among them.
        low, high: Clopper-Pearson interval of the precision.
        recall: share of the same pairs that are at least this similar.
        num_accepted: pairs at least this similar.
        num_pairs: all labelled pairs.
    """

    threshold: float
    precision: float
    low: float
    high: float
    recall: float
    num_accepted: int
    num_pairs: int


def calibrate_threshold(
    similarities: np.ndarray,
    same: np.ndarray,
    target_precision: float,
    *,
    criterion: Literal["estimate", "lower"] = "estimate",
    confidence: float = 0.95,
) -> CalibratedThreshold:
    """Find the lowest threshold at which labelled pairs reach a precision.

    The lowest has the largest recall. The precision holds for pairs drawn as the labelled ones were: label pairs that a
    search proposes, not half same and half different. The pairs that measure the threshold also choose it. So the
    estimate is optimistic, and the interval, which ignores the choice, a little too high. Label more pairs to check an
    important one.

    Args:
        similarities: of the pairs `[pairs]`; larger is more similar.
        same: whether each pair is the same thing `[pairs]`, bool.
        target_precision: in (0, 1].
        criterion: the figure that must reach the target: "estimate", the share itself, or "lower", the lower end of the
            interval.
        confidence: of the interval, in (0, 1).

    Raises:
        InvalidInput: mismatched arrays, no pair, or a target that is out of range or beyond every threshold; it names
            the best precision reached.
    """
    similarities, same = _checked_pairs(similarities, same)
    check_choice("criterion", criterion, ("estimate", "lower"))
    for name, value, closed in (("target_precision", target_precision, True), ("confidence", confidence, False)):
        if not (0 < value < 1 or (closed and value == 1)):
            raise invalid(name, received=value, expected="a number in (0, 1]" if closed else "a number in (0, 1)")
    thresholds, accepted, correct = accepted_pairs(similarities, same)
    low, high = precision_interval(correct, accepted, confidence)
    precision = correct / accepted
    reached = low if criterion == "lower" else precision
    fitting = np.flatnonzero(reached >= target_precision)
    if not len(fitting):
        best = int(np.argmax(reached))
        what = "precision" if criterion == "estimate" else f"lower end of its {100 * confidence:g} % interval"
        raise invalid(
            "target_precision",
            received=target_precision,
            expected=f"at most {reached[best]:.4f}, the best {what} of these {len(same)} pairs "
            f"(threshold {thresholds[best]:.4f})",
            fix="Lower the target, or label more pairs of high similarity.",
        )
    at = int(fitting[-1])
    return CalibratedThreshold(
        threshold=float(thresholds[at]),
        precision=float(precision[at]),
        low=float(low[at]),
        high=float(high[at]),
        recall=float(correct[at] / max(1, same.sum())),
        num_accepted=int(accepted[at]),
        num_pairs=len(same),
    )


def accepted_pairs(similarities: np.ndarray, same: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return falling similarities, with the pairs that reach each.

    Returns:
        The similarities `[different]`, and how many pairs, and how many of the same, reach them.
    """
    order = np.argsort(-similarities, kind="stable")
    ordered = similarities[order]
    ends = np.flatnonzero(np.r_[ordered[1:] < ordered[:-1], True])  # equal similarities are accepted together
    return ordered[ends], ends + 1, np.cumsum(same[order])[ends]


class CalibratedRejection(NamedTuple):
    """A threshold below which a nearest neighbour means nothing, and its error rates.

    Attributes:
        threshold: queries whose nearest neighbour is less similar count as unlike everything in the index.
        rejected: share of known items that count so, a false alarm.
        low, high: Clopper-Pearson interval of that share.
        detected: share of unknown items that count so; None without any.
        num_known: known items.
        num_unknown: unknown items.
        together: photos of an item, which are one query.
    """

    threshold: float
    rejected: float
    low: float
    high: float
    detected: float | None
    num_known: int
    num_unknown: int = 0
    together: int = 1


def calibrate_rejection(
    known: np.ndarray, max_rejected: float, unknown: np.ndarray | None = None, *, confidence: float = 0.95
) -> CalibratedRejection:
    """Find the highest threshold that rejects at most a share of known items.

    The highest detects the most unknown items. The share holds for queries drawn as the known items were.

    Args:
        known: similarities of known items with their nearest other item `[known]`.
        max_rejected: in [0, 1).
        unknown: the same of items that should be rejected `[unknown]`; they only measure.
        confidence: of the interval, in (0, 1).

    Raises:
        InvalidInput: no known item, NaN, or a share or confidence out of range.

    Examples:
        >>> found = calibrate_rejection(np.linspace(0.5, 0.99, 50), 0.1, unknown=np.float32([0.2, 0.5, 0.9]))
        >>> print(f"{found.threshold:.2f} {found.rejected:.2f} {found.detected:.2f}")
        0.55 0.10 0.67
    """
    known = np.sort(np.asarray(known, np.float64))
    if known.ndim != 1 or not len(known) or np.isnan(known).any():
        raise invalid(
            "known", received=f"an array {known.shape}", expected="similarities [known], at least one, no NaN"
        )
    if not 0 <= max_rejected < 1:
        raise invalid("max_rejected", received=max_rejected, expected="a number in [0, 1)")
    if not 0 < confidence < 1:
        raise invalid("confidence", received=confidence, expected="a number in (0, 1)")
    threshold = known[int(max_rejected * len(known) + 1e-9)]
    below = int((known < threshold).sum())
    low, high = precision_interval(below, len(known), confidence)
    num_unknown = 0 if unknown is None else len(unknown)
    detected = float(np.mean(np.asarray(unknown) < threshold)) if num_unknown else None
    rejected = below / len(known)
    return CalibratedRejection(float(threshold), rejected, float(low), float(high), detected, len(known), num_unknown)


def nearest_of_others(
    labels: Sequence[str], found_labels: Sequence[Sequence[str]], similarities: np.ndarray
) -> np.ndarray:
    """Return the similarities of labelled rows with their nearest rows of another class.

    Args:
        labels: of the rows `[rows]`, "" for none.
        found_labels: of the rows' neighbours `[rows, k]`, nearest first.
        similarities: of these `[rows, k]`.

    Returns:
        Similarities `[labelled rows]`; the last neighbour's if none is of another class.
    """
    others = [[bool(each) and each != label for each in line] for label, line in zip(labels, found_labels)]
    places = [line.index(True) if any(line) else -1 for line in others]
    return similarities[np.arange(len(labels)), places][np.array(labels) != ""]


def groups_of_photos(classes: np.ndarray, size: int, most: int, seed: int) -> np.ndarray:
    """Draw groups of photos of one class `[groups, size]`, without overlap.

    Each class keeps a photo outside its groups.

    Args:
        classes: of the photos, integers `[photos]`.
        size: photos of a group.
        most: groups at most.
        seed: of the draw.
    """
    rng = np.random.default_rng(seed)
    order = rng.permutation(len(classes))
    members = np.split(order[np.argsort(classes[order], kind="stable")], np.cumsum(np.bincount(classes))[:-1])
    counts = [(len(each) - 1) // size for each in members]
    groups = [each[: count * size].reshape(-1, size) for each, count in zip(members, counts)]
    return rng.permutation(np.concatenate(groups))[:most]


def precision_interval(
    correct: np.ndarray | int, accepted: np.ndarray | int, confidence: float = 0.95
) -> tuple[np.ndarray, np.ndarray]:
    """Return the Clopper-Pearson interval of a share.

    At least `confidence` of such intervals cover the true share.

    Reference: C. Clopper, E. Pearson: The Use of Confidence or Fiducial Limits Illustrated in the Case of the Binomial,
    Biometrika 1934.

    Args:
        correct: successes `[...]`, int.
        accepted: trials `[...]`, int, at least 1.
        confidence: in (0, 1).

    Returns:
        Lower and upper ends `[...]`.
    """
    from scipy.stats import beta  # two seconds of processor time, which other searches need not spend

    correct, accepted = np.asarray(correct), np.asarray(accepted)
    tail = (1 - confidence) / 2
    with np.errstate(invalid="ignore"):
        low = np.where(correct > 0, beta.ppf(tail, correct, accepted - correct + 1), 0.0)
        high = np.where(correct < accepted, beta.ppf(1 - tail, correct + 1, accepted - correct), 1.0)
    return low, high


def _checked_pairs(similarities: np.ndarray, same: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    similarities, same = np.asarray(similarities, np.float64), np.asarray(same)
    if similarities.ndim != 1 or same.shape != similarities.shape or not len(same):
        received = f"arrays of shapes {similarities.shape} and {same.shape}"
        raise invalid("pairs", received=received, expected="similarities and same, both [pairs], at least one pair")
    if not np.isin(same, (0, 1)).all():
        raise invalid("same", received=str(np.unique(same)[:5]), expected="true or false (1 or 0) for each pair")
    if np.isnan(similarities).any():
        raise invalid("similarities", received="NaN", expected="numbers")
    return similarities, same.astype(bool)
