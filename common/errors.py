"""Errors that a user can act on: what was received, what is expected, how to fix it."""

from __future__ import annotations

import difflib
import sys
import types
from collections.abc import Callable, Collection, Iterable
from typing import TypeVar

Choice = TypeVar("Choice")
Value = TypeVar("Value")
Number = TypeVar("Number", bound=float)
_MOST_SHOWN = 20  # problems in one error


class InvalidInput(ValueError):
    """Bad input from outside: a flag, a file, a data set, an array.

    Commands turn it into one clear message and exit code 2, without a traceback. A plain `ValueError` elsewhere is a
    programming error and keeps its traceback.
    """


class SeveralInvalid(InvalidInput):
    """Several errors at once, each in its own words; twenty of them are shown.

    Args:
        problems: at least two.
    """

    def __init__(self, problems: Collection[InvalidInput]) -> None:
        self.problems = tuple(problems)
        lines = [f"{number}. {problem}" for number, problem in enumerate(self.problems[:_MOST_SHOWN], start=1)]
        if len(self.problems) > _MOST_SHOWN:
            lines.append(f"... and {len(self.problems) - _MOST_SHOWN:,} more")
        super().__init__("\n  ".join([f"{len(self.problems)} things are wrong:", *lines]))


def check_all(checks: Iterable[Callable[[], object]]) -> None:
    """Calls every check, also after one has objected, and raises what they object to as one error.

    Args:
        checks: functions that raise `InvalidInput`; other exceptions pass through at once.

    Raises:
        InvalidInput: the objection as it is where there is one, a `SeveralInvalid` where there are more; the same
            sentence counts once.
    """
    found: list[InvalidInput] = []
    for check in checks:
        try:
            check()
        except InvalidInput as error:
            found.append(error)
    raise_all(found)


def raise_all(problems: Iterable[InvalidInput]) -> None:
    """Raise problems as one error, as `check_all` does; nothing if there is none."""
    found: dict[str, InvalidInput] = {}
    for error in problems:
        for problem in error.problems if isinstance(error, SeveralInvalid) else (error,):
            found.setdefault(str(problem), problem)
    if len(found) > 1:
        raise SeveralInvalid(tuple(found.values()))
    for problem in found.values():
        raise problem


def check_keras(keras: types.ModuleType) -> None:
    """Refuse a Keras that the layers of this project do not run on.

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
    if version.startswith(tuple(f"3.{minor}." for minor in range(5))):  # which take no references with a None
        expected = "Keras 2.15, or 3.5 and newer"
        raise invalid("version of Keras", received=version, expected=expected, fix="pip install --upgrade keras")


def nearest_choice(value: object, choices: Iterable[object]) -> str | None:
    """The question "Did you mean ...?" where some of `choices` are spelled much like `value`, else None.

    Case, underscores and hyphens do not count, so that it may name two: "mobilenet_v2 or MobileNetV2".
    """
    by_letters: dict[str, list[str]] = {}
    for choice in map(str, choices):
        by_letters.setdefault(_letters(choice), []).append(choice)
    near = difflib.get_close_matches(_letters(str(value)), by_letters, n=1, cutoff=0.7)
    return f"Did you mean {' or '.join(by_letters[near[0]])}?" if near else None


def _letters(text: str) -> str:
    return "".join(filter(str.isalnum, text.lower()))


def invalid(name: str, *, received: object, expected: str, fix: str | None = None) -> InvalidInput:
    """Makes the three-part error, for the caller to raise.

    Example: `raise invalid("transport_ratio", received=1.5, expected="a number in (0, 1]")`.

    Args:
        name: the argument, flag or file that is wrong, as the user knows it.
        received: what was given; shown by `repr`.
        expected: a phrase for the values that are allowed.
        fix: one sentence on what to do, when it is not obvious from `expected`.
    """
    message = f"Invalid {name}: received {received!r}, expected {expected}."
    return InvalidInput(f"{message} {fix}" if fix else message)


def check_given(name: str, value: Value | None) -> Value:
    """Returns `value` if there is one, else raises `InvalidInput`: for settings that not every method has."""
    if value is None:
        raise invalid(name, received=None, expected="a value")
    return value


def check_choice(name: str, value: Choice, choices: Collection[Choice]) -> Choice:
    """Returns `value` if it is one of `choices`, else raises `InvalidInput` that lists them."""
    if value not in choices:
        expected = "one of " + ", ".join(map(str, choices))
        raise invalid(name, received=value, expected=expected, fix=nearest_choice(value, choices))
    return value


def check_positive(name: str, value: Number) -> Number:
    """Returns `value` if it is greater than zero, else raises `InvalidInput`."""
    if not value > 0:
        raise invalid(name, received=value, expected="a number greater than 0")
    return value


def check_non_negative(name: str, value: Number) -> Number:
    """Returns `value` if it is zero or greater, else raises `InvalidInput`."""
    if not value >= 0:
        raise invalid(name, received=value, expected="a number greater than or equal to 0")
    return value


def check_fraction(name: str, value: Number, *, zero_allowed: bool = False) -> Number:
    """Returns `value` if it is in (0, 1] (or [0, 1] if `zero_allowed`), else raises `InvalidInput`."""
    if not (0 <= value <= 1) or (value == 0 and not zero_allowed):
        interval = "[0, 1]" if zero_allowed else "(0, 1]"
        raise invalid(name, received=value, expected=f"a number in {interval}")
    return value
