"""Reasons to refuse a `result.json`: another run's or version's, or malformed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from common.files import FORMAT_VERSION, Maybe, Number, difference, format_objection
from experiments.settings.config import changed_identity

METRICS = ("P@1", "MAP@R")  # of every test set, before and after training


def objection_to(
    result: dict, fold: int, repeat: int, config_hash: str, identity: Mapping[str, Any] | None = None
) -> str | None:
    """Explain why a run's finished result cannot be shown; `None` if it can.

    Reports format, average and compare its figures, so text or NaN instead of a number is named here.
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
    """Return entries that are finite numbers; none unless `metrics` is a dictionary."""
    entries = metrics.items() if isinstance(metrics, dict) else ()
    return {name: value for name, value in entries if is_number(value)}


def is_number(value) -> bool:
    """Check that a JSON value is finite in float64 and no boolean."""
    return isinstance(value, (int, float)) and not isinstance(value, bool) and -1e300 < value < 1e300


_METRICS = {name: Number(float, 0, 1) for name in METRICS}
_RESULT = {
    "test": _METRICS,
    "untrained": _METRICS,
    "closed_form": Maybe({str: _METRICS}, is_null_allowed=False),
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
