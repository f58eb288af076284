"""Kinds of settings of a method's parts, and all settings."""

from __future__ import annotations

import dataclasses
import functools
import typing
from collections.abc import Callable, Mapping
from typing import Any

from experiments.parts.kinds import Part
from experiments.parts.registry import TABLES, part_of
from experiments.parts.setting import Settings
from experiments.settings import method_names
from experiments.settings.methods import ccp, composers, features, gsp, pads
from experiments.settings.run_settings import RUN_SECTIONS

# The settings around a loss, and which method has them, by its loss, `--method` and pooling.
_HAVE: dict[type[Settings], Callable[[method_names.LossName, str, str], bool]] = {
    composers.RhoSettings: lambda loss, method, pooling: loss.switches,
    pads.PadsSettings: lambda loss, method, pooling: loss.miner == method_names.PADS,
    composers.MemorySettings: lambda loss, method, pooling: loss.memory,
    composers.SelfDistillationSettings: lambda loss, method, pooling: loss.distilled,
    composers.RegularizerSettings: lambda loss, method, pooling: True,
    features.FeatureSettings: lambda loss, method, pooling: bool(loss.features),
    features.TurnSettings: lambda loss, method, pooling: loss.may_take_turns,
    features.SharedSettings: lambda loss, method, pooling: method_names.SHARED in loss.features,
    features.GroupSettings: lambda loss, method, pooling: method_names.GROUPS in loss.features,
    features.DanceSettings: lambda loss, method, pooling: method_names.DANCE in loss.features,
    ccp.ProjectionSettings: lambda loss, method, pooling: method == "ccp",
    ccp.AnchorSettings: lambda loss, method, pooling: method == "ccp" and loss.base in method_names.ANCHORED_LOSSES,
    gsp.PrototypeSettings: lambda loss, method, pooling: method_names.uses_gsp(pooling),
    gsp.ZeroShotSettings: lambda loss, method, pooling: method_names.uses_gsp(pooling),
}
AROUND = tuple(_HAVE)


def kinds_of_settings() -> tuple[type[Settings], ...]:
    """Return the settings of all losses, composers, poolings and networks."""
    losses, *others = ([part.settings for part in table.values()] for table in TABLES.values())
    return (*losses, *AROUND, *(kind for kinds in others for kind in kinds))


def parts_of(loss: method_names.LossName, method: str, pooling: str, backbone: str = "") -> list[type[Settings]]:
    """Return a method's kinds of settings besides those of every run; an unknown part has none."""
    base, *others = (part_of(*each) for each in (("loss", loss), ("pooling", pooling), ("backbone", backbone)))
    kinds = [kind for kind, has in _HAVE.items() if has(loss, method, pooling)]
    return [*_settings(base), *kinds, *(kind for each in others for kind in _settings(each))]


def _settings(part: Part | None) -> list[type[Settings]]:
    return [part.settings] if part and part.settings.names() else []


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
