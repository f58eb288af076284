"""Names provided by plug-ins, with their provider and settings."""

from __future__ import annotations

from typing import NamedTuple

from experiments.settings.setting import Settings

KINDS = ("dataset", "loss", "pooling", "backbone")  # flags whose values a plug-in adds to


class Provider(NamedTuple):
    """A plug-in, as a run's configuration identifies it."""

    plugin: str  # the module's name, the value of `--plugin` without a path
    version: str  # of its installed distribution; empty for your own file or folder
    source: str  # `sha256:` and the digest of its source files

    def as_dict(self) -> dict[str, str]:
        """Return JSON values; without a version if there is none."""
        return {name: value for name, value in self._asdict().items() if value}

    def __str__(self) -> str:
        return f"plug-in {self.plugin}{f' {self.version}' if self.version else ''} ({self.source[:19]})"


PROVIDERS: dict[tuple[str, str], Provider] = {}  # by kind and name
OWN_SETTINGS: dict[tuple[str, str], type[Settings]] = {}  # likewise
