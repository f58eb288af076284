"""Descriptions of file contents, and a function that compares values with them.

A description is a type (`str`, `int`, `float`, `bool`, `dict`), a `Number`, an `Array`, a compiled pattern or a set of
texts, `[description]` for a list, or `(first, second)` for a list of exactly these. It may also be a dictionary of
descriptions by name; other entries are allowed, and the key `str` describes them. An entry described by a `Maybe` may
be missing.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from common.errors import InvalidInput

_LARGEST = 1e300  # of a number in float64 arithmetic
_ROUNDING = 1e-9  # by which a mean of float64 may leave its range
_MOST_SHOWN = 60  # characters of a value in a message
_KINDS = {"f": "floating-point", "i": "integer", "u": "integer", "U": "text"}
_WORDS = {str: "a text", bool: "true or false", dict: "an object"}


class Number(NamedTuple):
    """A finite `int`, or `float` (integers too), in [low, high]; no bool."""

    kind: type
    low: float = -_LARGEST
    high: float = _LARGEST


class Array(NamedTuple):
    """An array of finite numbers in [low, high], or of texts.

    Attributes:
        kinds: of NumPy's `dtype.kind`.
        shape: sizes or names of sizes; a name has one size in all of a description.
        low, high: of numbers.
    """

    kinds: str
    shape: tuple[int | str, ...]
    low: float = -_LARGEST
    high: float = _LARGEST


class Maybe(NamedTuple):
    """An entry that may be missing and, unless `is_null_allowed` is false, null."""

    description: Any
    is_null_allowed: bool = True


class Difference(NamedTuple):
    """The first deviation from a description: its place, as text, and the expected content."""

    entry: str
    received: str | None  # None: it is missing
    expected: str


def checked(value: Any, description: Any, place: str, *, fix: str | None = None) -> Any:  # noqa: ANN401
    """Return the value if it matches its description, else raise `InvalidInput`.

    Args:
        value: parsed JSON, or arrays by name.
        description: see the module.
        place: the file, and the line if it has lines.
        fix: a sentence on the remedy.

    Raises:
        InvalidInput: in one line, with the first part that differs.
    """
    found = difference(value, description)
    if found is None:
        return value
    name = f"{place}, {found.entry}" if found.entry else place
    message = f"Invalid {name}: received {found.received or 'nothing'}, expected {found.expected}."
    raise InvalidInput(f"{message} {fix}" if fix else message)


def difference(value: Any, description: Any) -> Difference | None:  # noqa: ANN401
    """Return the first part of a value that contradicts its description."""
    return _difference(value, description, "", {})


def _difference(value: Any, wanted: Any, entry: str, sizes: dict[int | str, int]) -> Difference | None:  # noqa: ANN401
    if isinstance(wanted, Maybe):
        if value is None and wanted.is_null_allowed:
            return None
        wanted = wanted.description
    if not _is_like(value, wanted, sizes):
        return Difference(entry, _shown(value), _in_words(wanted, sizes))
    for name, below in _parts(value, wanted):
        path = f"{entry} {name}".strip()
        if isinstance(value, Mapping) and name not in value:
            if not isinstance(below, Maybe):
                return Difference(path, None, _in_words(below, sizes))
        elif found := _difference(value[name], below, path, sizes):
            return found
    return None


def _parts(value: Any, wanted: Any) -> list[tuple[Any, Any]]:  # noqa: ANN401
    """Return the names or indices of a value's parts, with their descriptions."""
    if isinstance(wanted, dict):
        named = {name: below for name, below in wanted.items() if name is not str}
        return list((dict.fromkeys(value, wanted[str]) | named if str in wanted else named).items())
    if isinstance(value, list):
        return list(enumerate(wanted * len(value) if isinstance(wanted, list) else wanted))
    return []


def _is_like(value: Any, wanted: Any, sizes: dict[int | str, int]) -> bool:  # noqa: ANN401
    """Check a value's kind, ignoring the contents of lists and objects."""
    if wanted in (int, float):
        wanted = Number(wanted)
    if isinstance(wanted, Number):
        kinds, rounding = ((int,), 0.0) if wanted.kind is int else ((int, float), _ROUNDING)
        is_finite = type(value) in kinds and abs(value) <= _LARGEST
        return is_finite and wanted.low - rounding <= value <= wanted.high + rounding
    if isinstance(wanted, Array):
        return isinstance(value, np.ndarray) and _fits(value, wanted, sizes)
    if isinstance(wanted, (set, frozenset)):
        return isinstance(value, str) and value in wanted
    if isinstance(wanted, re.Pattern):
        return isinstance(value, str) and wanted.fullmatch(value) is not None
    if isinstance(wanted, tuple):
        return isinstance(value, list) and len(value) == len(wanted)
    if isinstance(wanted, (list, dict)):
        return isinstance(value, list if isinstance(wanted, list) else Mapping)
    return isinstance(value, wanted)


def _fits(value: np.ndarray, wanted: Array, sizes: dict[int | str, int]) -> bool:
    if value.dtype.kind not in wanted.kinds or value.ndim != len(wanted.shape):
        return False
    for size, found in zip(wanted.shape, value.shape):
        if (size if isinstance(size, int) else sizes.setdefault(size, found)) != found:
            return False
    if value.dtype.kind not in "fiu" or not value.size:
        return True
    low, high = float(value.min()), float(value.max())  # NaN if there is one
    return max(wanted.low, -_LARGEST) - _ROUNDING <= low and high <= min(wanted.high, _LARGEST) + _ROUNDING


def _shown(value: Any) -> str:  # noqa: ANN401
    if isinstance(value, np.ndarray):
        ends = f" from {value.min()} to {value.max()}" if value.size and value.dtype.kind in "fiu" else ""
        return f"{value.dtype.name} {list(value.shape)}{ends}"
    text = repr(value)
    return text if len(text) <= _MOST_SHOWN else f"{text[:_MOST_SHOWN]}..."


def _in_words(wanted: Any, sizes: Mapping[int | str, int]) -> str:  # noqa: ANN401
    if isinstance(wanted, Maybe):
        return _in_words(wanted.description, sizes)
    if wanted in (int, float):
        wanted = Number(wanted)
    if isinstance(wanted, Number):
        return ("an integer" if wanted.kind is int else "a number") + _range(wanted)
    if isinstance(wanted, Array):
        kinds = " or ".join(dict.fromkeys(_KINDS[kind] for kind in wanted.kinds))
        shape = ", ".join(f"{size} = {sizes[size]}" if size in sizes else str(size) for size in wanted.shape)
        return f"{kinds} [{shape}]{_range(wanted)}"
    if isinstance(wanted, (set, frozenset)):
        return f"one of {', '.join(sorted(wanted))}"
    if isinstance(wanted, re.Pattern):
        return f"a text like {wanted.pattern}"
    if isinstance(wanted, (list, tuple)):
        return f"a list of {len(wanted)}" if isinstance(wanted, tuple) else "a list"
    return "an object" if isinstance(wanted, dict) else _WORDS[wanted]


def _range(wanted: Number | Array) -> str:
    low = f" from {wanted.low:g}" if wanted.low > -_LARGEST else ""
    return low + (f" to {wanted.high:g}" if wanted.high < _LARGEST else "")
