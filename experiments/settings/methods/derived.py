"""Settings of plug-ins, derived from a constructor's annotated signature and docstring.

A parameter `scale: Annotated[float, POSITIVE] = 8.0` of a loss registered as `logistic` becomes the flag
`logistic_scale`. Its type, range and default come from the signature, its help from the docstring's `Args:`. A range
is a `NumberRange`; without one, any finite number is accepted. The constructor checks the value as well. Parameters
that the experiment supplies, such as the number of classes, are no settings.
"""

from __future__ import annotations

import dataclasses
import inspect
import re
import typing
from collections.abc import Callable, Collection, Mapping
from typing import Annotated, Any, Literal

from common import losses
from common.errors import InvalidInput, invalid
from common.files import Maybe, difference
from experiments.settings.setting import FINITE, LossContext, LossSettings, NumberRange, Settings, setting

_KINDS = (int, float, str, bool)
_OF_CONTEXT = ("num_classes", "embedding_dim", "normalization", "anchors")
_NO_SETTINGS = (*_OF_CONTEXT, "name", "dtype", "trainable")


def loss_settings(name: str, constructor: Callable[..., losses.MetricLoss]) -> type[LossSettings]:
    """Derive the settings class of a loss without special needs.

    A loss that needs `num_classes` and `embedding_dim` has proxies; one that takes `anchors` sees a pair from one side.
    """
    parameters = parameters_of(constructor)
    needed = {each.name for each in parameters.values() if each.default is each.empty}
    given = {"normalization", *(each for each in _OF_CONTEXT if each in parameters)}

    def build(settings: Settings, context: LossContext) -> losses.MetricLoss:
        values = {each: getattr(context, each) for each in _OF_CONTEXT if each in given}
        return constructed(settings, name, constructor, values)

    facts = {
        "has_proxies": {"num_classes", "embedding_dim"} <= needed,
        "sees_one_side": "anchors" in parameters,
        "build": build,
    }
    return typing.cast(type[LossSettings], derived(name, constructor, LossSettings, _NO_SETTINGS, facts))


def derived(
    name: str, constructor: Callable, base: type[Settings], without: Collection[str], attributes: Mapping[str, Any]
) -> type[Settings]:
    """Create a settings class with one setting per remaining constructor parameter."""
    fields = []
    told, hints = described(constructor), _hints(name, constructor)
    for each in parameters_of(constructor).values():
        if each.name not in without and each.kind not in (each.VAR_POSITIONAL, each.VAR_KEYWORD):
            text = told.get(each.name, each.name)
            fields.append(_field(name, each, hints.get(each.name), text))
    title = (inspect.getdoc(constructor) or name).splitlines()[0].split(":")[0].rstrip(".")
    namespace = {
        "__doc__": f"Settings of `{name}`.",
        "title": f"{title} ({name})",
        "stores_defaults": True,
        **attributes,
    }
    title = f"SettingsOf{name.title().replace('_', '')}"
    made = dataclasses.make_dataclass(title, fields, bases=(base,), namespace=namespace, frozen=True, kw_only=True)
    made.__module__ = constructor.__module__
    return made


def constructed(settings: Settings, name: str, constructor: Callable, given: Mapping[str, Any]) -> Any:
    """Call a constructor with derived settings; name flags in its errors."""
    names = type(settings).names()
    own = {each.removeprefix(f"{name}_"): getattr(settings, each) for each in names}
    try:
        return constructor(**given, **own)
    except InvalidInput as error:
        parameter = next((each for each in own if str(error).startswith(f"Invalid {each}:")), None)
        if parameter is None:
            raise
        raise InvalidInput(str(error).replace(parameter, f"--{name}_{parameter}", 1)) from error


def parameters_of(constructor: Callable) -> dict[str, inspect.Parameter]:
    """Return the parameters of a class' `__init__` or a function, by name."""
    if not inspect.isclass(constructor):
        return dict(inspect.signature(constructor).parameters)
    return dict(list(inspect.signature(constructor.__init__).parameters.items())[1:])


def described(constructor: Callable) -> dict[str, str]:
    """Return a docstring's text on each parameter under `Args:`, as one line."""
    section = re.search(r"^Args:\n((?:    .*\n|\n)*)", f"{inspect.getdoc(constructor) or ''}\n", re.MULTILINE)
    entries = re.findall(r"^    (\w+): (.*\n(?:     .*\n)*)", section[1] if section else "", re.MULTILINE)
    return {name: " ".join(text.split()).rstrip(".") for name, text in entries}


def _hints(name: str, constructor: Callable) -> dict[str, Any]:
    try:
        of = constructor.__init__ if inspect.isclass(constructor) else constructor
        return typing.get_type_hints(of, include_extras=True)
    except (NameError, TypeError) as error:
        raise invalid(f"annotations of {name}", received=str(error), expected="types that can be looked up") from error


def _field(name: str, parameter: inspect.Parameter, hint: Any, text: str) -> tuple[str, Any, Any]:
    """Return the (name, type, field) of a parameter's setting."""
    within = next((part for part in getattr(hint, "__metadata__", ()) if isinstance(part, NumberRange)), None)
    hint = getattr(hint, "__origin__", hint) if typing.get_origin(hint) is Annotated else hint
    parts = [part for part in typing.get_args(hint) if part is not type(None)]
    choices: tuple = ()
    kind: Any
    if typing.get_origin(hint) is Literal:
        choices, kind = tuple(parts), type(parts[0])
    else:
        kind = hint if hint in _KINDS else (parts[0] if len(parts) == 1 else None)
    default = dataclasses.MISSING if parameter.default is parameter.empty else parameter.default
    if kind not in _KINDS or not is_of_kind(default, kind, optional=hint is not kind):
        stated = "no type" if hint is None else f"{inspect.formatannotation(hint)} = {parameter.default!r}"
        raise invalid(
            f"setting {parameter.name} of {name}",
            received=stated,
            expected="int, float, str or bool with a default of that type",
            fix="Annotate it, or give a settings class of its own.",
        )
    default = float(default) if kind is float and isinstance(default, int) else default
    within = within or (FINITE if kind is float else None)
    options: Any = {"within": within if kind in (int, float) else None, "choices": choices}
    shown = "" if default is dataclasses.MISSING else f" (default: {default})"
    help_text = f"{name}: {text}{shown}"
    flag_type = kind if hint is kind or choices else kind | None
    return f"{name}_{parameter.name}", flag_type, setting(help_text, default, **options)


def is_of_kind(default: Any, kind: type, optional: bool) -> bool:
    """Return whether a setting of a type may have this default."""
    return default is dataclasses.MISSING or not difference(default, Maybe(kind) if optional else kind)
