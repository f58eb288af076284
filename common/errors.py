"""Errors that users can act on: value received, values expected, fix."""

from __future__ import annotations

import difflib
import sys
import types
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any, TypeVar

Choice = TypeVar("Choice")
Value = TypeVar("Value")
Number = TypeVar("Number", bound=float)
_MOST_SHOWN = 20  # problems in one error


class InvalidInput(ValueError):
    """Bad input from outside: a flag, a file, a data set, an array.

    Commands print it as one clear message and exit with code 2, without a traceback. A plain `ValueError` elsewhere is
    a programming error and keeps its traceback.
    """


class SeveralInvalid(InvalidInput):
    """Several errors in one message, which shows the first twenty.

    Args:
        problems: at least two.
    """

    def __init__(self, problems: Collection[InvalidInput]) -> None:
        self.problems = tuple(problems)
        lines = [f"{number}. {problem}" for number, problem in enumerate(self.problems[:_MOST_SHOWN], start=1)]
        if len(self.problems) > _MOST_SHOWN:
            lines.append(f"... and {len(self.problems) - _MOST_SHOWN:,} more")
        super().__init__("\n  ".join([f"{len(self.problems)} things are wrong:", *lines]))


def check_all(checks: Iterable[Callable[[], Any]]) -> list[Any]:
    """Run every check, then raise all objections as one error.

    Args:
        checks: functions that raise `InvalidInput`; other exceptions pass through at once.

    Returns:
        What the checks return, in order.

    Raises:
        InvalidInput: a single objection unchanged, or a `SeveralInvalid`; equal sentences count once.
    """
    found: list[InvalidInput] = []
    returned = []
    for check in checks:
        try:
            returned.append(check())
        except InvalidInput as error:
            found.append(error)
    raise_all(found)
    return returned


def raise_all(problems: Iterable[InvalidInput]) -> None:
    """Raise problems as one error, as `check_all` does, if there are any."""
    found: dict[str, InvalidInput] = {}
    for error in problems:
        for problem in error.problems if isinstance(error, SeveralInvalid) else (error,):
            found.setdefault(str(problem), problem)
    if len(found) > 1:
        raise SeveralInvalid(tuple(found.values()))
    for problem in found.values():
        raise problem


def check_keras(keras: types.ModuleType) -> None:
    """Refuse a Keras that cannot run this project's layers.

    Args:
        keras: `tensorflow.keras`.

    Raises:
        InvalidInput: another backend than TensorFlow, or Keras 3.0 to 3.4.
    """
    backend = keras.backend.backend()
    if backend != "tensorflow":
        fix = "Set it before Keras is imported, or in ~/.keras/keras.json."
        raise invalid("KERAS_BACKEND", received=backend, expected="tensorflow", fix=fix)
    version = sys.modules["keras"].__version__ if hasattr(keras, "ops") else "2"
    if version.startswith(tuple(f"3.{minor}." for minor in range(5))):  # these reject references with a None
        expected = "Keras 2.15, or 3.5 and newer"
        raise invalid("version of Keras", received=version, expected=expected, fix="pip install --upgrade keras")


def nearest_choice(
    value: object, choices: Iterable[object], other_names: Mapping[str, str] = types.MappingProxyType({})
) -> str | None:
    """Return the question "Did you mean ...?" for similar choices, or None.

    Case, underscores and hyphens are ignored, so it may name two: "mobilenet_v2 or MobileNetV2".

    Args:
        other_names: choices by what others call them.
    """
    by_letters: dict[str, list[str]] = {}
    for name, choice in [*((each, each) for each in map(str, choices)), *other_names.items()]:
        known = by_letters.setdefault(_letters(name), [])
        known += [choice] if choice not in known else []
    letters = _letters(str(value))
    near = difflib.get_close_matches(letters, by_letters, n=1, cutoff=0.7)
    near = near or [each for each in by_letters if sorted(each) == sorted(letters)]  # exchanged letters
    return f"Did you mean {' or '.join(by_letters[near[0]])}?" if near else None


def _letters(text: str) -> str:
    return "".join(filter(str.isalnum, text.lower()))


def invalid(name: str, *, received: object, expected: str, fix: str | None = None) -> InvalidInput:
    """Return the three-part error, for the caller to raise.

    Example: `raise invalid("transport_ratio", received=1.5, expected="a number in (0, 1]")`.

    Args:
        name: the invalid argument, flag or file, as the user knows it.
        received: the given value; shown by `repr`. A flag without a value (None) was "not given".
        expected: a phrase for the allowed values.
        fix: one sentence on the remedy, unless it is obvious from `expected`.
    """
    found = "not given" if received is None and name.startswith("--") else f"received {received!r}"
    message = f"Invalid {name}: {found}, expected {expected}."
    return InvalidInput(f"{message} {fix}" if fix else message)


def first_line(error: Exception, most: int = 200) -> str:
    """Return the first line of an error's text, or the name of its type."""
    return (str(error).strip().splitlines() or [type(error).__name__])[0][:most]


def check_given(name: str, value: Value | None) -> Value:
    """Return `value`, or refuse None (for settings that some methods lack)."""
    if value is None:
        raise invalid(name, received=None, expected="a value")
    return value


def check_choice(
    name: str, value: Choice, choices: Collection[Choice], other_names: Mapping[str, str] = types.MappingProxyType({})
) -> Choice:
    """Return `value` if in `choices`, else raise `InvalidInput` that lists them; see `nearest_choice`."""
    if value not in choices:
        expected = "one of " + ", ".join(map(str, choices))
        raise invalid(name, received=value, expected=expected, fix=nearest_choice(value, choices, other_names))
    return value


def check_positive(name: str, value: Number) -> Number:
    """Return `value` if it is greater than zero, else raise `InvalidInput`."""
    if not value > 0:
        raise invalid(name, received=value, expected="a number greater than 0")
    return value


def check_non_negative(name: str, value: Number) -> Number:
    """Return `value` if it is at least zero, else raise `InvalidInput`."""
    if not value >= 0:
        raise invalid(name, received=value, expected="a number greater than or equal to 0")
    return value


def check_fraction(name: str, value: Number, *, zero_allowed: bool = False) -> Number:
    """Return `value` if in (0, 1] (with `zero_allowed` [0, 1]), else raise `InvalidInput`."""
    if not (0 <= value <= 1) or (value == 0 and not zero_allowed):
        interval = "[0, 1]" if zero_allowed else "(0, 1]"
        raise invalid(name, received=value, expected=f"a number in {interval}")
    return value
