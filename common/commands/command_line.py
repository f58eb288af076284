"""Flags of a command: checked values, and `--help` in sections."""

from __future__ import annotations

import math
import os
import re
import shutil
import sys
import textwrap
from collections.abc import Callable, Collection, Mapping
from typing import Any

from absl import app, flags

from common.commands.exit_code import exit_code_of
from common.errors import InvalidInput, invalid

flags.disclaim_key_flags()  # they belong to the command that asks for them, whose --help lists them

OWN = "This command"  # the section of flags that no other has
_HELP = ("--help", "-help", "-?", "--?")
_HELP_ALL = "--help=all"
_NO_PATHS = ("label", "where", "compared_with", "command_line", "collection")  # texts that may begin with a ~
_WIDTH = 112


def run_command(
    main: Callable[..., None],
    kept: str = "",
    *,
    takes_words: bool = False,
    remedy: Callable[[str], str] = lambda name: "",
    sections_of: Callable[[], Mapping[str, Collection[str]]] = lambda: {OWN: ()},
    short_sections_of: Callable[[], Mapping[str, Collection[str]]] = dict,
) -> None:
    """Run `main` under absl, and exit; see `exit_code_of`.

    Args:
        kept: a sentence on what a stopped command has kept.
        takes_words: whether `main` receives, and checks, all words that are no flags.
        remedy: returns a sentence on an unknown flag of this name, or an empty text.
        sections_of: returns flags by the title of their section in `--help`. Flags that it does not name follow those
            of `OWN`.
        short_sections_of: likewise those of a short `--help`, in the order in which one needs them; `--help=all` then
            shows the rest. Empty: `--help` shows all.
    """

    def wrapped(arguments: list[str]) -> None:
        if takes_words:
            main(*arguments[1:])
            return
        if len(arguments) > 1:
            raise InvalidInput(f"Invalid argument: received {arguments[1]!r}, expected only --flags. See --help.")
        main()

    def parsed(arguments: list[str]) -> list[str]:
        if not {*_HELP, _HELP_ALL}.isdisjoint(arguments[1:]):
            short = None if _HELP_ALL in arguments else short_sections_of
            print(_help_text(flags.FLAGS, sections_of, short))
            sys.exit(0)
        try:
            rest = flags.FLAGS(arguments)
        except flags.UnrecognizedFlagError as error:
            known = remedy(error.flagname)
            raise InvalidInput(known if known else f"{error}. See --help for all flags.") from error
        except flags.Error as error:
            raise InvalidInput(f"{error}. See --help for all flags.") from error
        except SystemExit:  # --helpfull, which absl ends with an error code
            sys.exit(0)
        _check_values(flags.FLAGS)
        return rest

    sys.exit(exit_code_of(lambda: app.run(wrapped, flags_parser=parsed), kept))


def _check_values(values: flags.FlagValues) -> None:
    """Refuse infinite numbers, and expand the `~` of paths."""
    for flag in (values[name] for name in values):
        if not flag.present:
            continue
        if isinstance(flag.value, float) and not math.isfinite(flag.value):  # NaN would pass every bound
            raise invalid(f"--{flag.name}", received=flag.value, expected="a finite number")
        if flag.name not in _NO_PATHS:
            flag.value = with_home(flag.value)


def with_home(value: Any) -> Any:  # noqa: ANN401
    """Expand the `~` of a path or of a list of paths.

    Shells leave it as it is behind the equals sign of a flag.
    """
    if isinstance(value, str):
        return os.path.expanduser(value)
    return [with_home(each) for each in value] if isinstance(value, list) else value


def refuse_flags(values: flags.FlagValues, *names: str, because: str = "this command has its own") -> None:
    """Raise `InvalidInput` if a flag without effect is given."""
    given = [f"--{name}" for name in names if values[name].present]
    if given:
        raise InvalidInput(f"{', '.join(given)} would have no effect: {because}. Remove it.")


class _Joined(flags.Flag):
    """A flag whose values are joined by commas where it is repeated."""

    def parse(self, argument: str) -> None:  # noqa: D102
        super().parse(f"{self.value},{argument}" if self.present else argument)


def define_joined(name: str, default: str | None, help_text: str) -> None:
    """Define a flag whose values are joined by commas where it is repeated."""
    flags.DEFINE_flag(_Joined(flags.ArgumentParser(), flags.ArgumentSerializer(), name, default, help_text))


def define_exclude() -> None:
    """Define `--exclude` of commands that read a folder of photos."""
    text = "Skip files and folders whose name, or path below the folder of photos, matches, such as `thumb_*`"
    define_joined("exclude", None, f"{text}; may be repeated.")


def globs_in(text: str | None) -> tuple[str, ...]:
    """Split the patterns of `--exclude`, which commas separate."""
    return tuple(word.strip() for word in (text or "").split(",") if word.strip())


def _help_text(
    values: flags.FlagValues,
    sections_of: Callable[[], Mapping[str, Collection[str]]],
    short_sections_of: Callable[[], Mapping[str, Collection[str]]] | None,
) -> str:
    """Return the running command's docstring and its flags by section."""
    own = {flag.name: flag for flag in values.get_key_flags_for_module(sys.argv[0])}
    short = short_sections_of() if short_sections_of else {}
    sections = short or sections_of()
    named = {name for names in sections.values() for name in names}
    others = [] if short else sorted(name for name in own.keys() - named if "." not in name)
    lines = [(sys.modules["__main__"].__doc__ or "").strip()]
    for title, names in sections.items():
        members = [name for name in names if name in own] + (others if title == OWN else [])
        if members:
            lines += ["", f"{title}:", *(line for name in members for line in _lines_of(own[name], bool(short)))]
    more = sum("." not in name for name in own.keys() - named)
    return "\n".join([*lines, *(["", f"{_HELP_ALL} lists {more} more flags."] if short else [])])


def _lines_of(flag: flags.Flag, short: bool) -> list[str]:
    """Format a flag as name, help and default; `short` keeps at most two lines."""
    name = f"--[no]{flag.name}" if flag.boolean else f"--{flag.name}"
    default = f" (default: {flag.default_as_str})" if flag.default_as_str else ""
    text, width = f"{name}: {flag.help}{default}", min(_WIDTH, shutil.get_terminal_size((_WIDTH, 0)).columns)
    lines = textwrap.TextWrapper(width, initial_indent="  ", subsequent_indent="    ", break_on_hyphens=False)
    if short:
        lines.max_lines, lines.placeholder = 2, " ..."
        text = re.split("; |: one of", text)[0]
    return lines.wrap(text)
