"""Types of constructors' parameters that state ranges, and `checked`, which enforces them.

A constructor's signature is the one place of a hyper-parameter: `scale: Positive = 8.0` or
`reduction: Literal["sum", "mean"] = "sum"`. Flags and documents are made from it.
What several constructors share has a name here, which flags can read without an import of TensorFlow.
"""

from __future__ import annotations

import functools
import inspect
import math
import sys
import types
import typing
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Annotated, Any, Literal, NamedTuple, TypedDict, TypeVar

from common.errors import InvalidInput, check_choice, invalid, nearest_choice

if sys.version_info >= (3, 11):
    from typing import Unpack as Unpack
else:
    from typing_extensions import Unpack as Unpack  # which TensorFlow brings

Constructor = TypeVar("Constructor", bound=Callable[..., Any])


class NumberRange(NamedTuple):
    """An interval of finite numbers."""

    low: float = -math.inf  # this and `high` are its ends; infinite if unbounded
    high: float = math.inf
    low_included: bool = False  # whether the end belongs to it; infinity never does
    high_included: bool = False
    of_units: float = math.inf  # the largest number worth trying between unit vectors; larger ones are allowed

    def __contains__(self, value: Any) -> bool:  # noqa: ANN401
        above = value > self.low or (self.low_included and value == self.low)
        below = value < self.high or (self.high_included and value == self.high)
        return abs(value) < math.inf and above and below

    def __str__(self) -> str:
        opening, closing = "[" if self.low_included else "(", "]" if self.high_included else ")"
        return f"{opening}{self.low:g}, {self.high:g}{closing}"


FINITE = NumberRange()
POSITIVE = NumberRange(low=0)
NOT_NEGATIVE = NumberRange(low=0, low_included=True)
DISTANCE, SIMILARITY = NOT_NEGATIVE._replace(of_units=2.0), FINITE._replace(of_units=1.0)
SHARE = NumberRange(0, 1, low_included=True, high_included=True)

Positive = Annotated[float, POSITIVE]
NotNegative = Annotated[float, NOT_NEGATIVE]
Distance = Annotated[float, DISTANCE]
Similarity = Annotated[float, SIMILARITY]
Share = Annotated[float, SHARE]
PositiveShare = Annotated[float, NumberRange(0, 1, high_included=True)]
Count = Annotated[int, POSITIVE]
CountOrZero = Annotated[int, NOT_NEGATIVE]
TwoOrMore = Annotated[int, NumberRange(2, low_included=True)]

Anchors = Literal["embeddings", "references"]
DataFormat = Literal["channels_last", "channels_first"]
Normalization = Literal["unit", "clip", "none"]


class LayerArguments(TypedDict, total=False):
    """What any Keras layer takes."""

    name: str | None
    trainable: bool
    dtype: Any  # a name, or a policy of Keras


class PoolingArguments(LayerArguments, total=False):
    """What any `FeaturePooling` takes."""

    data_format: DataFormat | None


class LossArguments(LayerArguments, total=False):
    """What any `MetricLoss` takes."""

    normalization: Normalization


class ProxyLossArguments(LossArguments, total=False):
    """What any `ProxyLoss` takes: of Keras, its name or its configuration."""

    proxy_regularizer: Any
    proxy_constraint: Any


_IN_WORDS = {
    POSITIVE: "a number greater than 0",
    **dict.fromkeys((NOT_NEGATIVE, DISTANCE), "a number greater than or equal to 0"),
}


class Hint(NamedTuple):
    """What an annotation allows."""

    kind: type | None  # int, float, str or bool, the first of a union; None: another type, or no annotation
    optional: bool = False  # whether None is allowed
    mixed: bool = False  # whether values of other types are allowed, too
    within: NumberRange | None = None
    choices: tuple = ()


def hint_of(annotation: Any, namespace: Mapping[str, Any]) -> Hint:  # noqa: ANN401
    """Read an annotation, which may be text; unknown names are other types."""
    parts = [*_members(annotation, {**_HERE, **namespace})]
    simple = [hint for part in parts if (hint := _of_type(part)) is not None]
    optional = type(None) in parts
    return (simple or [Hint(None)])[0]._replace(optional=optional, mixed=len(parts) - optional > 1)


def _members(annotation: Any, namespace: Mapping[str, Any]) -> Iterator[Any]:  # noqa: ANN401
    if isinstance(annotation, str):
        try:
            annotation = eval(annotation, {}, namespace)  # noqa: S307  # source of a module of this process
        except (NameError, AttributeError, TypeError):
            parts = annotation.split(" | ")
            yield from (
                (annotation,) if len(parts) == 1 else [each for one in parts for each in _members(one, namespace)]
            )
            return
    is_union = typing.get_origin(annotation) in (typing.Union, types.UnionType)
    yield from typing.get_args(annotation) if is_union else (type(None) if annotation is None else annotation,)


def _of_type(part: Any) -> Hint | None:  # noqa: ANN401
    if typing.get_origin(part) is Literal:
        choices = typing.get_args(part)
        return Hint(type(choices[0]), choices=choices)
    kind = part.__origin__ if typing.get_origin(part) is Annotated else part
    if kind not in (int, float, str, bool):
        return None
    stated = getattr(part, "__metadata__", ())
    return Hint(kind, within=next((each for each in stated if isinstance(each, NumberRange)), None))


def checked(constructor: Constructor) -> Constructor:
    """Decorate an `__init__`: refuse arguments that its annotations exclude, and unknown keywords.

    For one release those behind `embedding_dim`, which have to be named, may also come in their order, with a warning.

    Raises:
        InvalidInput: when called.
    """
    signature = inspect.signature(constructor)
    kinds = {name: each.kind for name, each in signature.parameters.items()}
    ordered, named_alone = (
        [name for name in kinds if kinds[name] is kind]
        for kind in (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
    )
    is_free = inspect.Parameter.VAR_POSITIONAL in kinds.values()
    named_alone = named_alone if ordered[-1:] == ["embedding_dim"] and not is_free else []

    @functools.cache
    def hints() -> dict[str, Hint]:
        found = {
            name: hint_of(each.annotation, constructor.__globals__)
            for name, each in signature.parameters.items()
            if each.annotation is not each.empty
        }
        return {name: hint for name, hint in found.items() if hint.within or (hint.choices and not hint.mixed)}

    @functools.wraps(constructor)
    def checking(self: object, *arguments: Any, **named: Any) -> None:  # Keras looks for `self`
        old = dict(zip(named_alone, arguments[len(ordered) - 1 :]))
        if old and not old.keys() & named.keys():
            text = f"{type(self).__name__}: name what follows embedding_dim: {', '.join(f'{name}=' for name in old)}."
            warnings.warn(text, DeprecationWarning, stacklevel=2)
            arguments, named = arguments[: -len(old)], {**old, **named}
        try:
            given = signature.bind(self, *arguments, **named).arguments  # a missing one is a TypeError, as elsewhere
            for name, hint in hints().items():
                if name in given and not (given[name] is None and hint.optional):
                    _check(name, given[name], hint)
            constructor(self, *arguments, **named)
        except (TypeError, ValueError) as error:
            if not isinstance(error, InvalidInput):
                _check_names(type(self), named, error)
            raise

    checking.__signature__ = signature  # type: ignore[attr-defined]  # Keras reads it without following wrappers
    return typing.cast(Constructor, checking)


def _check_names(kind: type, given: Iterable[str], error: Exception) -> None:
    """Refuse a keyword that no constructor of a class has, after its constructor failed."""
    constructors = [each for base in kind.__mro__ if inspect.isfunction(each := vars(base).get("__init__"))]
    known = {name: None for each in constructors for name in inspect.signature(each).parameters}
    expected = [name for name in known if name not in ("self", "args", "kwargs")]
    for name in [name for name in given if name not in expected]:
        fix = nearest_choice(name, expected)
        raise invalid(
            f"keyword of {kind.__name__}", received=name, expected="one of " + ", ".join(expected), fix=fix
        ) from error


def _check(name: str, value: Any, hint: Hint) -> None:  # noqa: ANN401
    if hint.choices:
        check_choice(name, value, hint.choices)
    elif hint.within is not None:
        is_in = not isinstance(value, (str, type(None))) and value in hint.within
        if not is_in or (hint.kind is int and value != int(value)):
            kind = "a whole number" if hint.kind is int else "a number"
            expected = _IN_WORDS.get(hint.within, f"a number in {hint.within}")
            raise invalid(name, received=value, expected=expected.replace("a number", kind))


_HERE = {name: value for name, value in globals().items() if not name.startswith("_")}
