"""Reasons to refuse a `result.json`: it is another run's, another version's, or not what a run writes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from common.files import FORMAT_VERSION, Maybe, Number, difference, format_objection
from experiments.settings.config import changed_identity

METRICS = ("P@1", "MAP@R")  # of every test set, before and after training


def objection_to(
    result: dict, fold: int, repeat: int, config_hash: str, identity: Mapping[str, Any] | None = None
) -> str | None:
    """Why a finished result cannot be shown, in words, or `None`.

    A report's figures are formatted, averaged and compared, so each must be what a run writes: text or NaN instead
    of a number is named here, whatever wrote the file.

    Args:
        result: the content of the file.
        fold, repeat: what its folder's name says.
        config_hash: of its folder's parent.
        identity: what `config.json` says; None if it is missing or damaged.
    """
    version = format_objection(result.get("format", FORMAT_VERSION))
    if version:
        return f"it {version}"
    stated = str(result.get("config_hash", ""))
    if not stated or not (stated.startswith(config_hash) or config_hash.startswith(stated)):
        return f"its configuration hash is {stated or 'missing'}, its folder's is {config_hash}"
    if (result.get("fold"), result.get("repeat")) != (fold, repeat):
        return f"it says fold {result.get('fold')}, repeat {result.get('repeat')}"
    changed = identity and changed_identity(identity, config_hash, fold, repeat)
    if changed:
        return changed
    found = difference(result, _RESULT)
    if found is None:
        return None
    if found.received is None:
        return f"it has no {found.entry}"
    return f"its {found.entry} is {found.received}, expected {found.expected}"


def numbers(metrics) -> dict[str, float]:
    """The entries that are finite numbers; none when `metrics` is no dictionary."""
    entries = metrics.items() if isinstance(metrics, dict) else ()
    return {name: value for name, value in entries if is_number(value)}


def is_number(value) -> bool:
    """Whether a JSON value is a number that arithmetic can take: finite in float64, and no truth value."""
    return isinstance(value, (int, float)) and not isinstance(value, bool) and -1e300 < value < 1e300


_METRICS = {name: Number(float, 0, 1) for name in METRICS}
_RESULT = {
    "test": _METRICS,
    "untrained": _METRICS,
    "steps": Number(int, 0),
    "train_seconds": Number(float, 0),
    "validation": {"best": {str: float}},
    "diagnostics": Maybe({str: float, "warning": Maybe(str)}, is_null_allowed=False),
    "validation_classes": Maybe(Number(int, 0), is_null_allowed=False),
    "deviations": Maybe([str], is_null_allowed=False),
    "problems": Maybe([dict], is_null_allowed=False),
    "environment": Maybe(dict),
    "seed": Maybe(int),
    "features": Maybe(dict, is_null_allowed=False),
}  # what a run writes; entries that may be missing are of some runs, or not of the first versions
