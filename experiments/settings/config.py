"""The configuration of an experiment: one frozen record, resolved from flags and recipe, hashed and stored."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import typing
from collections.abc import Iterator, Mapping
from typing import Any, TypeVar

from common.errors import InvalidInput, invalid
from experiments.settings.cut_settings import check_cut
from experiments.settings.device_settings import check_device_settings
from experiments.settings.initial_weights import is_file, weights_file
from experiments.settings.methods import AROUND, LOSSES, parts_of
from experiments.settings.run_settings import (
    CONVENTIONAL_PROTOCOLS,
    FINAL,
    RUN_SECTIONS,
    ComparisonSettings,
    DeviceSettings,
    ImageSettings,
    NetworkSettings,
    ProtocolSettings,
    TrainingSettings,
)
from experiments.settings.setting import Settings

Part = TypeVar("Part", bound=Settings)


@dataclasses.dataclass(frozen=True, kw_only=True)
class ExperimentConfig(
    ComparisonSettings, ProtocolSettings, ImageSettings, NetworkSettings, TrainingSettings, DeviceSettings
):
    """Everything that decides the outcome of a unit, but its fold and repeat. Every setting is a flag.

    A setting of a part can be read as an attribute, too: `config.ms_alpha` is None for a method without that part.

    Attributes:
        parts: the settings of the loss, the pooling and what goes around them.
        sources: the layer that set each value last, by the name of its flag; decides nothing.
    """

    parts: tuple[Settings, ...] = ()
    sources: Mapping[str, str] = dataclasses.field(default_factory=dict, compare=False, repr=False)

    @classmethod
    def of(cls, values: Mapping[str, Any], sources: Mapping[str, str] | None = None) -> ExperimentConfig:
        """The configuration with these values, by the names of their flags; what is None counts as not given.

        Args:
            values: by name; those with a default may be missing.
            sources: see the attribute.

        Raises:
            InvalidInput: a value is missing, out of its range, or of no part of the method.
        """
        values = {name: value for name, value in values.items() if value is not None}
        missing = {"loss", "method", "pooling"} - values.keys()
        kinds = [] if missing else parts_of(values["loss"], values["method"], values["pooling"])
        missing |= {field.name for kind in (*RUN_SECTIONS, *kinds) for field in _required(kind)} - values.keys()
        if missing:
            raise InvalidInput(f"Invalid configuration: received no {', '.join(sorted(missing))}, expected a value.")
        parts = tuple(kind(**_taken(kind, values)) for kind in kinds)
        run = {name: values[name] for section in RUN_SECTIONS for name in _taken(section, values)}
        unknown = values.keys() - run.keys() - {name for kind in kinds for name in _taken(kind, values)}
        if unknown:
            raise invalid("configuration", received=", ".join(sorted(unknown)), expected="settings of its method alone")
        return cls(**run, parts=parts, sources=dict(sources or {}))

    def __post_init__(self) -> None:
        super().__post_init__()
        if bool(self.clip_norm) != bool(self.clip_value):
            raise InvalidInput("--clip_norm and --clip_value are given together, or both are 0.")
        if (self.selection_start or 0) >= self.max_steps:
            raise InvalidInput(
                f"--selection_start={self.selection_start} leaves nothing to select in --max_steps={self.max_steps}: "
                "give less of the one or more of the other."
            )
        check_cut(self)
        check_device_settings(self)

    def __getattr__(self, name: str) -> Any:
        """The value of a part's setting, None where the method has no such part."""
        if name not in _PART_SETTINGS:
            raise AttributeError(f"{type(self).__name__!r} has no setting {name!r}")
        return next((getattr(part, name) for part in self.parts if name in type(part).names()), None)

    def find(self, kind: type[Part]) -> Part | None:
        """The settings of this kind, or None for a method without them."""
        return next((part for part in self.parts if isinstance(part, kind)), None)

    def part(self, kind: type[Part]) -> Part:
        """The settings of this kind.

        Raises:
            InvalidInput: the method has none.
        """
        found = self.find(kind)
        if found is None:
            raise invalid("method", received=self.name, expected=f"one with settings of {kind.title or kind.__name__}")
        return found

    def replace(self, **values: Any) -> ExperimentConfig:
        """A copy with other values, by the names of their flags."""
        sources = {name: source for name, source in self.sources.items() if name not in values}
        return ExperimentConfig.of({**self.as_dict(), **values}, sources)

    @property
    def batch_size(self) -> int:
        """Images in a batch."""
        return self.classes_per_batch * self.samples_per_class

    @property
    def monitor(self) -> str:
        """The validation metric that decides: R@1 in the conventional protocol (the same as P@1), else MAP@R."""
        return "P@1" if self.protocol in CONVENTIONAL_PROTOCOLS else "MAP@R"

    @property
    def name(self) -> str:
        """The method's name in tables and folders: loss, `ccp`, pooling."""
        return "+".join([self.loss, *(["ccp"] if self.method == "ccp" else []), self.pooling])

    def as_dict(self) -> dict[str, Any]:
        """JSON values of all settings that have one, by the names of their flags."""
        parts = (self, *self.parts)
        values = {name: getattr(part, name) for part in parts for name in type(part).names()}
        return {name: value for name, value in values.items() if value is not None}

    def stored(self) -> dict[str, Any]:
        """What `config.json` and the hash say: first names, without defaults of what was added since."""
        stored = super().stored()
        for part in self.parts:
            stored |= part.stored()
        return stored

    def identity(self, data_fingerprint: str) -> dict[str, Any]:
        """What decides the outcome, as JSON values: the settings, the data, and a weights file by its content.

        `weights_source` is the SHA-256 of the published file that a weights file was made from, where it says.
        """
        identity = {**self.stored(), "data": data_fingerprint}
        if is_file(self.weights):
            file = weights_file(self.weights)
            identity["weights"] = file.digest
            if file.source_sha256:
                identity["weights_source"] = file.source_sha256
        return identity

    def hash(self, data_fingerprint: str) -> str:
        """Ten hexadecimal digits that differ whenever the configuration or the data differ."""
        text = json.dumps(self.identity(data_fingerprint), sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()[:10]


class Setting(typing.NamedTuple):
    """A setting of any method.

    Attributes:
        name: of the flag.
        kind: of its values: int, float, str or bool.
        section: of `--help`.
        metadata: see `setting`.
    """

    name: str
    kind: type
    section: str
    metadata: Mapping[str, Any]


def all_settings() -> tuple[Setting, ...]:
    """The settings of all methods, in order; each becomes a flag."""
    return _SETTINGS


def by_flag_names(stored: Mapping[str, Any]) -> dict[str, Any]:
    """What `config.json` says, with settings by the names of their flags."""
    return {_FLAG_OF.get(name, name): value for name, value in stored.items()}


def _required(kind: type[Settings]) -> list[dataclasses.Field]:
    return [field for field in dataclasses.fields(kind) if field.default is dataclasses.MISSING]


def _taken(kind: type[Settings], values: Mapping[str, Any]) -> dict[str, Any]:
    return {name: values[name] for name in kind.names() if name in values}


def _declared() -> Iterator[Setting]:
    """Every setting once, by the class that declares it."""
    bases = [base for kind in (*LOSSES.values(), *AROUND) for base in reversed(kind.__mro__)]
    seen: set[str] = set()
    for kind in (*RUN_SECTIONS, *(base for base in bases if issubclass(base, Settings))):
        hints = typing.get_type_hints(kind)
        for field in dataclasses.fields(kind):
            if field.name in kind.__dict__.get("__annotations__", {}) and field.name not in seen:
                seen.add(field.name)
                kinds = [part for part in typing.get_args(hints[field.name]) if part is not type(None)]
                yield Setting(field.name, kinds[0] if kinds else hints[field.name], kind.title, field.metadata)


_SETTINGS = tuple(_declared())
_FLAG_OF = {each.metadata["stored_as"]: each.name for each in _SETTINGS if each.metadata["stored_as"]}
_PART_SETTINGS = {each.name for each in _SETTINGS} - {name for section in RUN_SECTIONS for name in section.names()}

__all__ = ["CONVENTIONAL_PROTOCOLS", "FINAL", "ExperimentConfig", "Setting", "all_settings", "by_flag_names"]
