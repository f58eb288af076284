"""The configuration of an experiment: one frozen record, resolved, hashed and stored."""

from __future__ import annotations

import dataclasses
import functools
import hashlib
import json
import typing
from collections.abc import Iterator, Mapping
from typing import Any, TypeVar

from common.backbones import is_preset
from common.errors import InvalidInput, invalid
from experiments.settings.cut_settings import check_cut
from experiments.settings.device_settings import check_device_settings
from experiments.settings.feature_checks import check_features
from experiments.settings.initial_weights import is_file, preset_digest, weights_file
from experiments.settings.method_names import method_name, parse_loss
from experiments.settings.parts import kinds_of_settings, parts_of
from experiments.settings.provided import KINDS, OWN_SETTINGS, PROVIDERS, Provider
from experiments.settings.run_settings import (
    CONVENTIONAL_PROTOCOLS,
    FINAL,
    REVISITING,
    RUN_SECTIONS,
    ComparisonSettings,
    DeviceSettings,
    ImageSettings,
    NetworkSettings,
    ProtocolSettings,
    TrainingSettings,
)
from experiments.settings.setting import Settings
from experiments.settings.update_settings import check_update

Part = TypeVar("Part", bound=Settings)


@dataclasses.dataclass(frozen=True, kw_only=True)
class ExperimentConfig(
    ComparisonSettings, ProtocolSettings, ImageSettings, NetworkSettings, TrainingSettings, DeviceSettings
):
    """Everything that decides a unit's outcome, except fold and repeat.

    Every setting is a flag. Parts' settings are attributes, too: `config.ms_alpha` is None without that part.

    Attributes:
        parts: the settings of the loss, the pooling and their composers.
        sources: the layer that set each value last, by flag; not part of the identity.
    """

    parts: tuple[Settings, ...] = ()
    sources: Mapping[str, str] = dataclasses.field(default_factory=dict, compare=False, repr=False)

    @classmethod
    def of(cls, values: Mapping[str, Any], sources: Mapping[str, str] | None = None) -> ExperimentConfig:
        """Create a configuration from values by flag name; None means not given.

        Args:
            values: by flag name; those with a default may be missing.
            sources: see the attribute.

        Raises:
            InvalidInput: a value is missing, out of its range, or belongs to no part of the method.
        """
        values = {name: value for name, value in values.items() if value is not None}
        missing = {"loss", "method", "pooling"} - values.keys()
        places = [values.get(name, "") for name in ("loss", "method", "pooling", "backbone", "dataset")]
        kinds = [] if missing else parts_of(*places)
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
        check_update(self)
        check_device_settings(self)
        check_features(self)

    def __getattr__(self, name: str) -> Any:
        """Return a part's setting, None if the method has no such part."""
        if name not in _part_settings(kinds_of_settings()):
            raise AttributeError(f"{type(self).__name__!r} has no setting {name!r}")
        return next((getattr(part, name) for part in self.parts if name in type(part).names()), None)

    def find(self, kind: type[Part]) -> Part | None:
        """Return the settings of this kind, or None."""
        return next((part for part in self.parts if isinstance(part, kind)), None)

    def part(self, kind: type[Part]) -> Part:
        """Return the settings of this kind.

        Raises:
            InvalidInput: the method has no such settings.
        """
        found = self.find(kind)
        if found is None:
            raise invalid("method", received=self.name, expected=f"one with settings of {kind.title or kind.__name__}")
        return found

    def replace(self, **values: Any) -> ExperimentConfig:
        """Return a copy with other values, by flag name."""
        sources = {name: source for name, source in self.sources.items() if name not in values}
        return ExperimentConfig.of({**self.as_dict(), **values}, sources)

    @property
    def batch_size(self) -> int:
        """Images in a batch."""
        return self.classes_per_batch * self.samples_per_class

    @property
    def monitor(self) -> str:
        """The deciding validation metric: R@1 (P@1) in the conventional protocol, else MAP@R."""
        return "P@1" if self.protocol in CONVENTIONAL_PROTOCOLS else "MAP@R"

    @property
    def validates_clustering(self) -> bool:
        """True if each validation measures NMI, as the "Revisiting" benchmark's tables need."""
        return self.recipe == REVISITING

    @property
    def name(self) -> str:
        """The method's name in tables and folders: loss, `ccp`, pooling."""
        return method_name(self.loss, self.method, self.pooling)

    def as_dict(self) -> dict[str, Any]:
        """Return JSON values of all settings that have one, by flag name."""
        parts = (self, *self.parts)
        values = {name: getattr(part, name) for part in parts for name in type(part).names()}
        return {name: value for name, value in values.items() if value is not None}

    def own(self, kind: str) -> Settings | None:
        """Return a plug-in's settings of a part, or None.

        Args:
            kind: `pooling`, `backbone` or `dataset`.
        """
        settings = OWN_SETTINGS.get((kind, getattr(self, kind)))
        return self.find(settings) if settings else None

    def providers(self) -> dict[str, Provider]:
        """Return the required plug-ins by the part that they provide."""
        names = {kind: getattr(self, kind) for kind in KINDS} | {"loss": parse_loss(self.loss).base}
        return {kind: PROVIDERS[kind, name] for kind, name in names.items() if (kind, name) in PROVIDERS}

    def stored(self) -> dict[str, Any]:
        """Return the content of `config.json`: original names, without newer fields' defaults."""
        stored = super().stored()
        for part in self.parts:
            stored |= part.stored()
        plugins = {kind: provider.as_dict() for kind, provider in self.providers().items()}
        return {**stored, "plugins": plugins} if plugins else stored

    def identity(self, data_fingerprint: str) -> dict[str, Any]:
        """Return the settings, data and weights that decide the outcome (JSON).

        A weights file is identified by content. `weights_source` is the SHA-256 of its published source, if recorded;
        `preset` is that of a local folder with a keras-hub preset.
        """
        identity = {**self.stored(), "data": data_fingerprint}
        if is_file(self.weights):
            file = weights_file(self.weights)
            identity["weights"] = file.digest
            if file.source_sha256:
                identity["weights_source"] = file.source_sha256
        if is_preset(self.backbone):
            digest = preset_digest(self.backbone, self.weights)
            if digest:
                identity["preset"] = digest
        return identity

    def hash(self, data_fingerprint: str) -> str:
        """Return ten hexadecimal digits that identify the configuration and the data."""
        return identity_digest(self.identity(data_fingerprint))[:10]


def identity_digest(identity: Mapping[str, Any]) -> str:
    """Compute the SHA-256 of a run's `config.json`, without fold and repeat."""
    kept = {name: value for name, value in identity.items() if name not in ("fold", "repeat")}
    return hashlib.sha256(json.dumps(kept, sort_keys=True).encode()).hexdigest()


def changed_identity(identity: Mapping[str, Any], config_hash: str, fold: int, repeat: int) -> str | None:
    """Describe a `config.json`'s changes since its run; None if unchanged.

    Args:
        identity: its content.
        config_hash: stored with the run.
        fold, repeat: likewise.
    """
    digest = identity_digest(identity)[: len(config_hash)]
    if digest != config_hash:
        return f"the configuration in its config.json was changed: it has the hash {digest}, the run has {config_hash}"
    place = identity.get("fold", fold), identity.get("repeat", repeat)
    return None if place == (fold, repeat) else f"its config.json says fold {place[0]}, repeat {place[1]}"


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
    """Return the settings of all methods, in order; each becomes a flag."""
    return _settings_of(kinds_of_settings())


def by_flag_names(stored: Mapping[str, Any]) -> dict[str, Any]:
    """Return the content of `config.json` with settings by flag name."""
    flag_of = {each.metadata["stored_as"]: each.name for each in all_settings() if each.metadata["stored_as"]}
    return {flag_of.get(name, name): value for name, value in stored.items() if name != "plugins"}


def _required(kind: type[Settings]) -> list[dataclasses.Field]:
    return [field for field in dataclasses.fields(kind) if field.default is dataclasses.MISSING]


def _taken(kind: type[Settings], values: Mapping[str, Any]) -> dict[str, Any]:
    return {name: values[name] for name in kind.names() if name in values}


def _declared(kinds: tuple[type[Settings], ...]) -> Iterator[Setting]:
    """Yield every setting once, by the class that declares it."""
    bases = [base for kind in kinds for base in reversed(kind.__mro__)]
    seen: set[str] = set()
    for kind in (*RUN_SECTIONS, *(base for base in bases if issubclass(base, Settings))):
        hints = typing.get_type_hints(kind)
        for field in dataclasses.fields(kind):
            if field.name in kind.__dict__.get("__annotations__", {}) and field.name not in seen:
                seen.add(field.name)
                types = [part for part in typing.get_args(hints[field.name]) if part is not type(None)]
                yield Setting(field.name, types[0] if types else hints[field.name], kind.title, field.metadata)


@functools.lru_cache(maxsize=8)
def _settings_of(kinds: tuple[type[Settings], ...]) -> tuple[Setting, ...]:
    return tuple(_declared(kinds))


@functools.lru_cache(maxsize=8)
def _part_settings(kinds: tuple[type[Settings], ...]) -> set[str]:
    return {each.name for each in _settings_of(kinds)} - {name for section in RUN_SECTIONS for name in section.names()}


__all__ = [
    "CONVENTIONAL_PROTOCOLS",
    "FINAL",
    "ExperimentConfig",
    "Setting",
    "all_settings",
    "by_flag_names",
    "changed_identity",
    "identity_digest",
]
