"""Kinds of settings of a method's parts, and all settings."""

from __future__ import annotations

import dataclasses
import functools
import itertools
import typing
from collections.abc import Mapping
from typing import Any

from experiments.parts.kinds import Part
from experiments.parts.registry import TABLES, methods_of, part_of
from experiments.parts.setting import Settings
from experiments.settings.run_settings import RUN_SECTIONS


def kinds_of_settings() -> tuple[type[Settings], ...]:
    """Return the settings of all parts."""
    return tuple(part.settings for table in TABLES.values() for part in table.values())


def chosen_parts(values: Mapping[str, Any]) -> list[Part]:
    """Return the parts that flags name, if they have settings."""
    methods = methods_of(*(values.get(name) or "" for name in ("loss", "method", "pooling")))
    parts = [methods if kind == "method" else [part_of(kind, values)] for kind in TABLES]
    return [part for part in itertools.chain(*parts) if part and part.settings.names()]


def chosen_flags(values: Mapping[str, Any]) -> dict[str, str]:
    """Return the settings of the chosen parts by their own flags, such as `ms.positive_scale`."""
    return {flag: name for part in chosen_parts(values) for flag, name in part.flags.items()}


class Setting(typing.NamedTuple):
    """A setting of any method."""

    name: str
    kind: type
    section: str
    metadata: Mapping[str, Any]


def all_settings() -> tuple[Setting, ...]:
    """Return the settings of all methods, in order; each becomes a flag."""
    return _settings_of(kinds_of_settings())


@functools.lru_cache(maxsize=8)
def _settings_of(kinds: tuple[type[Settings], ...]) -> tuple[Setting, ...]:
    """Return every setting once, by the class that declares it."""
    bases = [base for kind in kinds for base in reversed(kind.__mro__)]
    found: dict[str, Setting] = {}
    for kind in (*RUN_SECTIONS, *(base for base in bases if issubclass(base, Settings))):
        hints = typing.get_type_hints(kind)
        for field in dataclasses.fields(kind):
            if field.name in kind.__dict__.get("__annotations__", {}) and field.name not in found:
                types = [part for part in typing.get_args(hints[field.name]) if part is not type(None)]
                of_kind = types[0] if types else hints[field.name]
                of_kind = str if issubclass(of_kind, str) else of_kind  # as which parsed names are given and stored
                found[field.name] = Setting(field.name, of_kind, kind.title, field.metadata)
    return tuple(found.values())


@functools.lru_cache(maxsize=8)
def part_settings(kinds: tuple[type[Settings], ...]) -> set[str]:
    """Return the names of all parts' settings."""
    return {each.name for each in _settings_of(kinds)} - {name for section in RUN_SECTIONS for name in section.names()}
