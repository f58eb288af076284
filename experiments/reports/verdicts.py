"""Whether a measured figure reproduces a printed one: the rule, and what makes the two incomparable."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from statistics import NormalDist

from common.backbones import checkpoints_of, published_checkpoint
from experiments.reports.published_values import PublishedValue
from experiments.reports.statistics import FairEstimate

# What a run must have in common with a printed fair-protocol row. Tuples are alternatives: the printed figures come
# from the published code and are described by the text, so a run of either recipe is measured against them.
FAIR_CONDITIONS: Mapping[str, object] = {
    "recipe": ("thesis", "published_code"),
    "budget": "full",
    "backbone": "bn_inception",
    "weights": "imagenet",
    "embedding_dim": 128,
    "image_size": 227,
    "num_folds": 4,
}
NORMALIZATION = {"3.1": "clip", "5.1": "unit", "5.3": "unit", "ICCV-1": "unit", "ICCV-2": "unit"}

_WITHOUT_EFFECT = ("seed", "ccp_keeps_problems")  # fields that decide nothing a printed figure was averaged over
_HALF_DIGIT = 0.005  # printed figures are rounded to two decimals


def fair_conditions(table: str) -> dict[str, object]:
    """What a run's configuration must say to be comparable with a fair-protocol row of `table`.

    Reference: thesis sections 3.3.2 and 5.3.4.1; chapter 3 clips the norm, chapter 5 uses the unit norm.
    """
    conditions = dict(FAIR_CONDITIONS)
    if table in NORMALIZATION:
        conditions["normalization"] = NORMALIZATION[table]
    return conditions


def incomparable_reasons(
    config: Mapping[str, object],
    conditions: Mapping[str, object],
    deviations: Sequence[str] = (),
    departures: Mapping[str, object] | None = None,
) -> list[str]:
    """Why a run cannot be measured against a table: one phrase a difference, none when it can.

    Args:
        config: the run's configuration, see `MethodRuns.stated`. A condition that it does not state counts as a
            difference. Weights are judged by what they are: `imagenet` asks for a published checkpoint of the network,
            whatever the file was called.
        conditions: required values by name, e.g. `fair_conditions("5.1")`; a tuple lists alternatives.
        deviations: how the data set on disk differs from the official one.
        departures: the recipe's values of fields that were set by hand; what `conditions` names is judged by them.
    """
    reasons = [f"data set: {deviation}" for deviation in dict.fromkeys(deviations)]
    for name, wanted in conditions.items():
        choices = wanted if isinstance(wanted, tuple) else (wanted,)
        if name not in config:
            reasons.append(f"{name} is not stated")
        elif name == "weights" and wanted == "imagenet":
            reasons += _objections_to_weights(config)
        elif config[name] not in choices:
            reasons.append(f"{name} is {config[name]}, the table's is {' or '.join(map(str, choices))}")
    for name, wanted in (departures or {}).items():
        if name not in conditions and name not in _WITHOUT_EFFECT:
            reasons.append(f"{name} is {config.get(name)}, the recipe's is {wanted}")
    return reasons


def _objections_to_weights(config: Mapping[str, object]) -> list[str]:
    """Why a run did not begin with its network's ImageNet weights: one phrase, or none when it did."""
    weights, source = config["weights"], config.get("weights_source")
    if weights == "imagenet":
        return []
    if weights == "none" or not source:
        unknown = "" if weights == "none" else " (a file that does not record what it was made from)"
        return [f"weights is {weights}{unknown}, the table's is imagenet"]
    backbone = str(config.get("backbone"))
    if published_checkpoint(backbone, str(source)):
        return []
    known = ", ".join(checkpoint.name for checkpoint in checkpoints_of(backbone)) or "none"
    return [
        f"weights were made from a file with SHA-256 {str(source)[:12]}..., which is no published ImageNet checkpoint "
        f"of {backbone} (known: {known})"
    ]


def difference(estimate: FairEstimate, published: PublishedValue | None) -> float | None:
    """Measured minus printed, in percentage points; `None` without a figure that may serve as a target."""
    if published is None or not published.is_target:
        return None
    return 100 * estimate.mean - published.value


def verdict(estimate: FairEstimate, published: PublishedValue | None, reasons: Sequence[str] = ()) -> str:
    """`"reproduced"`, `"above"`, `"below"`, or `"not comparable: ..."` with every reason.

    Reproduced: |measured - printed| <= margin + half of the last printed digit, else above or below. The margin is the
    half-width of our interval for new trainings *on this test set* plus the printed std: the print was measured on the
    same classes, so the choice of classes explains no difference. When we trained only once and our spread is unknown,
    it is taken from the print; both figures then vary like one collection, and the margin is z sqrt(2) std.

    A lost or doubtful cell is never a target, whatever it says.

    Args:
        estimate: our figure, as a fraction.
        published: the printed cell, in percent; `None`: there is none.
        reasons: why the two cannot be compared, from `incomparable_reasons` or the caller's own (a missing fold).
    """
    problems = list(reasons)
    if published is None:
        problems.insert(0, "no published figure")
    elif not published.is_target:
        problems.insert(0, f"the printed cell is {published.status} ({published.note})")
    if problems:
        return "not comparable: " + "; ".join(problems)
    margin = _margin(estimate, published)
    if margin is None:
        return "not comparable: trained once, and neither side has a spread"
    gap = difference(estimate, published)
    if abs(gap) <= margin + _HALF_DIGIT + 1e-9:
        return "reproduced"
    return "above" if gap > 0 else "below"


def gain_verdict(
    gain: float, bounds: tuple[float, float] | None, printed: float, *, at_least: bool = False
) -> tuple[str, str]:
    """What is to be said of a gain beside a printed one that has neither a figure for each side nor a spread.

    Args:
        gain: ours, as a fraction.
        bounds: of its 95 % interval, as fractions; None where nothing was repeated.
        printed: in percentage points, above 0.
        at_least: the print says "more than".

    Returns:
        `"reproduced"`, `"larger"`, `"same direction, smaller"`, `"no difference shown"` or `"contradicted"`, and a
        sentence with both figures. Without an interval the gain alone decides, and the sentence says so.
    """
    low, high = bounds or (gain, gain)
    if high < 0:
        word = "contradicted"
    elif low <= 0:
        word = "no difference shown"
    elif 100 * high < printed - 0.5:  # printed to whole points
        word = "same direction, smaller"
    else:
        word = "larger" if 100 * low > printed + 0.5 and not at_least else "reproduced"
    ours = f"{100 * gain:+.1f} points" + (f" [{100 * low:+.1f}, {100 * high:+.1f}]" if bounds else " (no interval)")
    return word, f"Thesis: {'more than ' if at_least else ''}{printed:+g} points of MAP@R. Ours: {ours}: {word}."


def _margin(estimate: FairEstimate, published: PublishedValue) -> float | None:
    """How far apart two runs of the same method may lie, in percentage points."""
    own = estimate.interval.same_test_set() if estimate.interval else None
    if own is not None:
        return 100 * (own.high - own.estimate) + (published.std or 0.0)
    if published.std is None:
        return None
    return NormalDist().inv_cdf(0.975) * math.sqrt(2) * published.std
