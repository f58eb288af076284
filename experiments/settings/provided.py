"""Names provided by plug-ins, with their provider and settings."""

from __future__ import annotations

from common.commands.plugins import Provider
from experiments.settings.setting import Settings

KINDS = ("dataset", "loss", "pooling", "backbone")  # flags whose values a plug-in adds to


PROVIDERS: dict[tuple[str, str], Provider] = {}  # by kind and name
OWN_SETTINGS: dict[tuple[str, str], type[Settings]] = {}  # likewise
