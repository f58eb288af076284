"""Plug-ins of experiments; see `common.commands.plugins`."""

from __future__ import annotations

from absl import flags

from common.commands import plugins
from common.commands.plugins import Provider
from common.errors import InvalidInput, invalid
from experiments.parts.registry import METHODS, TABLES, Registry, providers
from experiments.settings.run_settings import RUN_SECTIONS

flags.disclaim_key_flags()  # they belong to the command that asks for them, whose --help lists them


def check_stored_plugins(stated: object, folder: str) -> None:
    """Refuse a run whose plug-ins, stated in its `config.json`, are missing or changed."""
    for kind, provider in stated.items() if isinstance(stated, dict) else ():
        name = provider.get("plugin")
        known = [part.provider for part in TABLES[kind].values() if part.provider and part.provider.plugin == name]
        if not known:
            raise invalid(
                f"plug-ins for {folder}",
                received=", ".join(sorted(each.plugin for each in providers())) or "none",
                expected=f"{name}, which gives this run its {kind}",
                fix=f"Add --plugin={name}, if that module can be imported, or --plugin=FOLDER/{name}.py.",
            )
        if not any(each.states(provider) for each in known):
            sources = ", ".join(each.source[:19] for each in known)
            raise InvalidInput(
                f"{folder} was run with another version of the plug-in {name}: the source of its {kind} was "
                f"{str(provider.get('source'))[:19]}, --plugin has {sources}. Give --plugin the former source, or run "
                "it again."
            )


def define_plugin_flag() -> None:
    """Define `--plugin` and import its modules; exit if that fails."""
    plugins.define_plugin_flag(registry_of)


def registry_of(provider: Provider) -> Registry:
    """Return the registry of a plug-in, which is named once."""
    if any(each.plugin == provider.plugin for each in providers()):
        raise invalid("--plugin", received=f"{provider.plugin} more than once", expected="every plug-in once")
    kinds = (*RUN_SECTIONS, *(part.settings for part in METHODS.values()))
    return Registry(provider, {name for kind in kinds for name in kind.names()})
