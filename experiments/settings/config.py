"""The configuration of an experiment: one frozen record, resolved, hashed and stored."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import os
from collections.abc import Mapping
from typing import Any

from common.backbones import is_preset
from common.backbones.initial_weights import is_file, preset_digest, weights_file
from common.commands.plugins import Provider
from common.errors import InvalidInput, invalid, raise_all
from experiments.parts.registry import TABLES, part_of
from experiments.parts.setting import Settings
from experiments.settings.checks import conflicts
from experiments.settings.method_names import parse_loss
from experiments.settings.parts import all_settings, chosen_parts, kinds_of_settings, part_settings
from experiments.settings.run_settings import RUN_SECTIONS, RunSettings


@dataclasses.dataclass(frozen=True, kw_only=True)
class ExperimentConfig(RunSettings):
    """Everything that decides a unit's outcome, except fold and repeat.

    Every setting is a flag. Parts' settings are attributes, too: `config.ms_alpha` is None without that part.
    """

    @classmethod
    def of(cls, values: Mapping[str, Any], sources: Mapping[str, str] | None = None) -> ExperimentConfig:
        """Create a configuration from values by flag name; None means not given.

        Refuse a value that is missing without a default, out of its range, or of no part of the method.
        """
        values = {name: value for name, value in values.items() if value is not None}
        missing = {"loss", "method", "pooling"} - values.keys()
        if "loss" in values:
            values["loss"] = parse_loss(values["loss"])
        kinds = [] if missing else _kinds_of(values)
        fields = [field for kind in (*RUN_SECTIONS, *kinds) for field in dataclasses.fields(kind)]
        missing |= {field.name for field in fields if field.default is dataclasses.MISSING} - values.keys()
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
        raise_all(conflicts(self))

    def __getattr__(self, name: str) -> Any:
        """Return a part's setting, None if the method has no such part."""
        if name not in part_settings(kinds_of_settings()):
            raise AttributeError(f"{type(self).__name__!r} has no setting {name!r}")
        return next((getattr(part, name) for part in self.parts if name in type(part).names()), None)

    def replace(self, **values: Any) -> ExperimentConfig:
        """Return a copy with other values, by flag name, dropping settings of lost parts."""
        sources = {name: source for name, source in self.sources.items() if name not in values}
        after = {**self.as_dict(), **values}
        names = {name for kind in _kinds_of(after) for name in kind.names()}
        gone = {name for part in self.parts for name in type(part).names()} - names - values.keys()
        return ExperimentConfig.of({name: value for name, value in after.items() if name not in gone}, sources)

    def as_dict(self) -> dict[str, Any]:
        """Return JSON values of all settings that have one, by flag name."""
        parts = (self, *self.parts)
        values = {name: getattr(part, name) for part in parts for name in type(part).names()}
        return {name: value for name, value in values.items() if value is not None}

    def providers(self) -> dict[str, Provider]:
        """Return the required plug-ins by the part that they provide."""
        parts = {kind: part_of(kind, vars(self)) for kind in TABLES}
        return {kind: part.provider for kind, part in parts.items() if part and part.provider}

    def stored(self) -> dict[str, Any]:
        """Return the content of `config.json`: original names, without newer fields' defaults."""
        stored = super().stored()
        for part in self.parts:
            stored |= part.stored()
        plugins = {kind: provider.as_dict() for kind, provider in self.providers().items()}
        return {**stored, "plugins": plugins} if plugins else stored

    def identity(self, data_fingerprint: str) -> dict[str, Any]:
        """Return the settings, data and weights that decide the outcome (JSON).

        Runs to start from are identified by their folder's name, which ends in a hash, and a weights file by content.
        `weights_source` is the SHA-256 of its published source, if recorded; `preset` is that of a local folder with a
        keras-hub preset.
        """
        identity = {**self.stored(), "data": data_fingerprint}
        if self.start_from is not None:
            identity["start_from"] = os.path.basename(os.path.abspath(self.start_from))
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
    """Describe a `config.json`'s changes since its run; None if unchanged."""
    digest = identity_digest(identity)[: len(config_hash)]
    if digest != config_hash:
        return f"the configuration in its config.json was changed: it has the hash {digest}, the run has {config_hash}"
    place = identity.get("fold", fold), identity.get("repeat", repeat)
    return None if place == (fold, repeat) else f"its config.json says fold {place[0]}, repeat {place[1]}"


def by_flag_names(stored: Mapping[str, Any]) -> dict[str, Any]:
    """Return the content of `config.json` with settings by flag name."""
    flag_of = {each.metadata["stored_as"]: each.name for each in all_settings() if each.metadata["stored_as"]}
    return {flag_of.get(name, name): value for name, value in stored.items() if name != "plugins"}


def _kinds_of(values: Mapping[str, Any]) -> list[type[Settings]]:
    return [part.settings for part in chosen_parts(values)]


def _taken(kind: type[Settings], values: Mapping[str, Any]) -> dict[str, Any]:
    return {name: values[name] for name in kind.names() if name in values}
