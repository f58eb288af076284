"""A setting: one field of a settings class, with its flag's help and all values that it takes."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Collection, Mapping
from typing import Any, ClassVar

from common.errors import check_all, check_choice, invalid
from experiments.settings.number_ranges import NumberRange


def setting(
    help_text: str,
    default: Any = dataclasses.MISSING,
    *,
    within: NumberRange | None = None,
    choices: Collection[str] = (),
    stored_as: str | None = None,
    omit_default: bool = False,
) -> Any:
    """A field of a class derived from `Settings`; a flag of the same name is made from it.

    Args:
        help_text: what `--help` says of the flag, without a full stop.
        default: the value where neither recipe nor flag gives one; a field without default has to be given.
        within: the range of a number; every fraction has one.
        choices: all values of a text, where they are known here.
        stored_as: the field's name in `config.json` and in hashes, where it is not the flag's.
        omit_default: the default is not stored, so that a new field leaves the hashes of older runs as they are.
    """
    of_setting = {"help": help_text, "within": within, "choices": tuple(choices)}
    of_storage = {"stored_as": stored_as, "omit_default": omit_default or default is None}
    return dataclasses.field(default=default, metadata={**of_setting, **of_storage})


@dataclasses.dataclass(frozen=True, kw_only=True)
class Settings:
    """What one part of a method, or every run, can be told.

    Attributes:
        title: of the section that its flags have in `--help`.

    Raises:
        InvalidInput: a value is out of its range or none of its choices; it is named as its flag.
    """

    title: ClassVar[str] = ""

    def __post_init__(self) -> None:
        fields = dataclasses.fields(self)
        check_all(functools.partial(_check, field, getattr(self, field.name)) for field in fields)

    @classmethod
    def names(cls) -> tuple[str, ...]:
        """Of the settings, as their flags are called."""
        return _names(cls)  # type: ignore[arg-type]  # a class is hashable

    def stored(self) -> dict[str, Any]:
        """The JSON values that `config.json` and hashes have, by the names that these have had from the first."""
        stored = {}
        for field in dataclasses.fields(self):
            value = getattr(self, field.name)
            if field.metadata and value is not None and not (field.metadata["omit_default"] and value == field.default):
                stored[field.metadata["stored_as"] or field.name] = value
        return stored


@functools.cache
def _names(kind: type[Settings]) -> tuple[str, ...]:
    return tuple(field.name for field in dataclasses.fields(kind) if field.metadata)


def _check(field: dataclasses.Field, value: Any) -> None:
    """Raises `InvalidInput` unless a field may have this value; a missing one is not looked at."""
    if value is not None and field.metadata:
        check_value(field.name, value, field.metadata)


def check_value(name: str, value: Any, metadata: Mapping[str, Any]) -> None:
    """Raises `InvalidInput` unless a setting of this name and metadata (see `setting`) may have this value."""
    within, choices = metadata["within"], metadata["choices"]
    if within is not None and value not in within:
        raise invalid(f"--{name}", received=value, expected=f"a number in {within}")
    if choices:
        check_choice(f"--{name}", value, choices)
