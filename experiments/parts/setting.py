"""A setting: one field of a settings class, with flag help, range and choices."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Collection, Mapping
from typing import Any, ClassVar

from common.errors import check_all, check_choice, invalid
from common.parameters import NumberRange


def setting(
    help_text: str,
    default: Any = dataclasses.MISSING,
    *,
    within: NumberRange | None = None,
    choices: Collection[str] = (),
    stored_as: str | None = None,
    omit_default: bool | None = None,
    argument: str | None = None,
    repeats: bool = False,
) -> Any:
    """Define a field of a `Settings` class, and hence a flag.

    Args:
        help_text: the flag's text in `--help`, without a full stop; the default is added unless it names one.
        default: the value if neither recipe nor flag gives one; a field without default must be given.
        within: the range of a number; every fraction has one.
        choices: allowed strings, if not any.
        stored_as: the field's name in `config.json` and in hashes, if not the flag's.
        omit_default: whether to omit the default when storing, so that a new field preserves older runs' hashes; None:
            unless the class `stores_defaults`.
        argument: the constructor's name of it, if not the flag's.
        repeats: whether the flag of a string may be repeated: commas then join its values.
    """
    if default is not dataclasses.MISSING and default is not None and "default" not in help_text:
        help_text += f" (default: {_in_words(default)})"
    of_setting = {"help": help_text, "within": within, "choices": choices, "argument": argument}
    of_storage = {"repeats": repeats, "stored_as": stored_as, "omit_default": True if default is None else omit_default}
    return dataclasses.field(default=default, metadata={**of_setting, **of_storage})


def _in_words(default: bool | float | str) -> str:
    if isinstance(default, bool):
        return "yes" if default else "no"
    return default if isinstance(default, str) else f"{default:g}"


@dataclasses.dataclass(frozen=True, kw_only=True)
class Settings:
    """Settings of one part of a method, or of every run.

    Raises:
        InvalidInput: a value is out of its range or none of its choices; the message names its flag.
    """

    # of the section that its flags have in `--help`; a keyword of the class statement, or an attribute
    title: ClassVar[str] = ""
    stores_defaults: ClassVar[bool] = False  # whether stored settings and hashes have them, too

    def __init_subclass__(cls, title: str | None = None) -> None:
        super().__init_subclass__()
        if title is not None:
            cls.title = title

    def __post_init__(self) -> None:
        fields = dataclasses.fields(self)
        check_all(functools.partial(_check, field, getattr(self, field.name)) for field in fields)

    @classmethod
    def names(cls) -> tuple[str, ...]:
        """Return the settings' names, which are those of their flags."""
        return _names(cls)  # type: ignore[arg-type]  # a class is hashable

    def arguments(self) -> dict[str, Any]:
        """Return the settings by their names in the constructor that they feed."""
        fields = [field for field in dataclasses.fields(self) if field.metadata]
        return {field.metadata["argument"] or field.name: getattr(self, field.name) for field in fields}

    def changed(self, arguments: Mapping[str, Any]) -> Settings:
        """Return a copy with other values, by their names in the constructor."""
        names = {field.metadata["argument"] or field.name: field.name for field in dataclasses.fields(self)}
        return dataclasses.replace(self, **{names[name]: value for name, value in arguments.items()})

    def stored(self) -> dict[str, Any]:
        """Return the JSON values for `config.json` and hashes, by original names."""
        stored = {}
        for field in dataclasses.fields(self):
            value = getattr(self, field.name)
            if not field.metadata or value is None:
                continue
            omitted = field.metadata["omit_default"]
            is_omitted = not self.stores_defaults if omitted is None else omitted
            if not (is_omitted and value == field.default):
                stored[field.metadata["stored_as"] or field.name] = value
        return stored


@functools.cache
def _names(kind: type[Settings]) -> tuple[str, ...]:
    return tuple(field.name for field in dataclasses.fields(kind) if field.metadata)


def _check(field: dataclasses.Field, value: Any) -> None:
    """Raise `InvalidInput` unless a field may have this value; ignore missing ones."""
    if value is not None and field.metadata:
        check_value(field.name, value, field.metadata)


def check_value(name: str, value: Any, metadata: Mapping[str, Any]) -> None:
    """Raise `InvalidInput` unless a setting with this metadata allows this value."""
    within, choices = metadata["within"], metadata["choices"]
    if within is not None and value not in within:
        raise invalid(f"--{name}", received=value, expected=f"a number in {within}")
    if choices:
        check_choice(f"--{name}", value, choices)
