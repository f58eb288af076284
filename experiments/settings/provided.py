"""Names that plug-ins provide: by which plug-in, with which settings, after which recipe."""

from __future__ import annotations

from typing import NamedTuple

from experiments.settings.setting import Settings

KINDS = ("dataset", "loss", "pooling", "backbone")  # flags whose values a plug-in adds to


class Provider(NamedTuple):
    """A plug-in, as the configuration of a run knows it.

    Attributes:
        plugin: what `--plugin` was given, without a path: the name of a module.
        version: of the installed distribution that it belongs to; empty for a file or a folder of your own.
        source: `sha256:` and the digest of its source files.
    """

    plugin: str
    version: str
    source: str

    def as_dict(self) -> dict[str, str]:
        """JSON values; without a version where there is none."""
        return {name: value for name, value in self._asdict().items() if value}

    def __str__(self) -> str:
        return f"plug-in {self.plugin}{f' {self.version}' if self.version else ''} ({self.source[:19]})"


PROVIDERS: dict[tuple[str, str], Provider] = {}  # by kind and name
OWN_SETTINGS: dict[tuple[str, str], type[Settings]] = {}  # likewise
RECIPES_OF: dict[str, str] = {}  # a data set of a plug-in: the one whose recipe it takes


def recipe_of(dataset: str) -> str:
    """The data set of this library whose recipe a data set takes: its own, unless a plug-in says another."""
    return RECIPES_OF.get(dataset, dataset)
