"""Reasons to refuse a `result.json`: it is another run's, another version's, or not what a run writes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from common.files import FORMAT_VERSION, format_objection

METRICS = ("P@1", "MAP@R")  # of every test set, before and after training


def objection_to(result: dict, fold: int, repeat: int, config_hash: str) -> str | None:
    """Why a finished result cannot be shown, in words, or `None`.

    A report's figures are formatted, averaged and compared, so each must be what a run writes: text or NaN instead
    of a number is named here, whatever wrote the file.

    Args:
        result: the content of the file.
        fold, repeat: what its folder's name says.
        config_hash: of its folder's parent.
    """
    version = format_objection(result.get("format", FORMAT_VERSION))
    if version:
        return f"it {version}"
    stated = str(result.get("config_hash", ""))
    if not stated or not (stated.startswith(config_hash) or config_hash.startswith(stated)):
        return f"its configuration hash is {stated or 'missing'}, its folder's is {config_hash}"
    if (result.get("fold"), result.get("repeat")) != (fold, repeat):
        return f"it says fold {result.get('fold')}, repeat {result.get('repeat')}"
    return next((_wrong(result, path, *kind) for path, kind in _EXPECTED.items() if _wrong(result, path, *kind)), None)


def numbers(metrics) -> dict[str, float]:
    """The entries that are finite numbers; none when `metrics` is no dictionary."""
    entries = metrics.items() if isinstance(metrics, dict) else ()
    return {name: value for name, value in entries if is_number(value)}


def is_number(value) -> bool:
    """Whether a JSON value is a number that arithmetic can take: finite in float64, and no truth value."""
    return isinstance(value, (int, float)) and not isinstance(value, bool) and -1e300 < value < 1e300


def _is_fraction(value) -> bool:
    return is_number(value) and -1e-9 <= value <= 1 + 1e-9


def _is_count(value) -> bool:
    return is_number(value) and isinstance(value, int) and value >= 0


def _is_best(value) -> bool:
    return isinstance(value, dict) and all(is_number(entry) for entry in value.values())


def _are_diagnostics(value) -> bool:
    entries = value.items() if isinstance(value, dict) else [("", None)]
    return all(isinstance(entry, str) if name == "warning" else is_number(entry) for name, entry in entries)


def _are_texts(value) -> bool:
    return isinstance(value, list) and all(isinstance(entry, str) for entry in value)


def _are_records(value) -> bool:
    return isinstance(value, list) and all(isinstance(entry, dict) for entry in value)


_FRACTION = (_is_fraction, "a number from 0 to 1")
# What a run writes, by where it stands: (whether a value is of the kind, the kind in words).
_EXPECTED: dict[tuple[str, ...], tuple[Callable, str]] = {
    **{(moment, metric): _FRACTION for moment in ("test", "untrained") for metric in METRICS},
    ("steps",): (_is_count, "a whole number"),
    ("train_seconds",): (lambda value: is_number(value) and value >= 0, "a number of at least 0"),
    ("validation", "best"): (_is_best, "numbers by name"),
    ("diagnostics",): (_are_diagnostics, "numbers by name"),
    ("validation_classes",): (_is_count, "a whole number"),
    ("deviations",): (_are_texts, "a list of texts"),
    ("problems",): (_are_records, "a list of records"),
}
# Of some runs only, or not of the first versions.
_OPTIONAL = ("diagnostics", "deviations", "problems", "validation_classes")


def _wrong(result: dict, path: tuple[str, ...], is_kind: Callable, kind: str) -> str | None:
    if path[0] in _OPTIONAL and path[0] not in result:
        return None
    value: Any = result
    for name in path:
        value = value.get(name) if isinstance(value, dict) else None
    name = " ".join(path)
    if value is None:
        return f"it has no {name}"
    return None if is_kind(value) else f"its {name} is {_shortened(value)}, expected {kind}"


def _shortened(value, most: int = 60) -> str:
    text = repr(value)
    return text if len(text) <= most else f"{text[:most]}..."
