"""`--plugin`, whose modules are imported first because they add flags."""

from __future__ import annotations

import sys

from absl import flags

from common.errors import InvalidInput, invalid
from experiments.process.exit_code import exit_code_of
from experiments.settings.plugins import load_plugins

flags.disclaim_key_flags()  # they belong to the command that asks for them, whose --help lists them


def define_plugin_flag() -> None:
    """Define `--plugin` and import its modules; exit if that fails."""
    _define()
    code = exit_code_of(lambda: _load(sys.argv))
    if code:
        sys.exit(code)


def _define(values: flags.FlagValues = flags.FLAGS) -> None:
    flags.DEFINE_multi_string(
        "plugin",
        [],
        "Module, or path of a .py file, with losses, poolings, backbones or data sets of your own; may be given "
        "several times. Its flags stand in sections of their own.",
        flag_values=values,
    )


def _load(arguments: list[str]) -> None:
    values = flags.FlagValues()
    _define(values)
    values.set_gnu_getopt(True)  # what follows flags that are not known yet
    try:
        values(arguments, known_only=True)
    except flags.Error as error:
        raise InvalidInput(f"{error}. See --help for all flags.") from error
    if "" in values.plugin:
        raise invalid("--plugin", received="", expected="a module, or the path of a .py file")
    load_plugins(values.plugin)
