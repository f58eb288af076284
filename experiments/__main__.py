"""The program `dml`: run a command by its name, or list all commands.

Regenerates: nothing; `dml fair_eval ...` is `python -m experiments.fair_eval ...`, and `dml search ...` is
    `python -m photo_search.search ...`.
Command: dml (or python -m experiments); dml fair_eval --help
Expected: the commands in groups, with one line each.
Cost: a tenth of a second; no module of a command is imported for the list.
"""

from __future__ import annotations

import ast
import difflib
import os
import pathlib
import runpy
import sys
import textwrap

from experiments.settings.removed import removal_of

GROUPS = {  # commands without a group are listed last
    "Demo": ("demo",),
    "Photos": ("search", "serve", "clinic"),
    "Data and weights": ("prepare_data", "convert_weights", "pretrain"),
    "Training and evaluation": (
        *("fair_eval", "conventional_eval", "revisiting_eval", "tune", "train_final", "export", "evaluate"),
        *("report", "compare", "rerun", "posterior_refinement"),
    ),
    "Thesis": ("table", "figure", "record"),
    "This machine": ("doctor", "clean"),
}
_PACKAGES = ("experiments", "photo_search")  # all modules directly in them are commands
_HELP = ("--help", "-h", "-help", "help")
_WIDTH = 100


def main() -> None:
    """Run the command that the first argument names."""
    name, *arguments = sys.argv[1:] or ["--help"]
    if name in _HELP:
        print(listing())
    elif name in commands():
        if not getattr(sys.flags, "safe_path", False):
            sys.path.append(os.getcwd())  # `python -m` has it: plug-ins may lie there
        sys.argv = [name, *arguments]
        runpy.run_module(module_of(name), run_name="__main__", alter_sys=True)
    else:
        sys.exit(_unknown(name))


def commands() -> dict[str, str]:
    """Return the first line of each command's docstring, by the command's name."""
    sources = {name: path.read_text(encoding="utf-8") for name, path in sorted(_paths().items())}
    docstrings = {name: ast.get_docstring(ast.parse(source)) or "" for name, source in sources.items()}
    return {name: docstring.partition("\n")[0] for name, docstring in docstrings.items()}


def module_of(name: str) -> str:
    """Return the module of a command."""
    return f"{_paths()[name].parent.name}.{name}"


def _paths() -> dict[str, pathlib.Path]:
    root = pathlib.Path(__file__).resolve().parents[1]
    found = [path for package in _PACKAGES for path in (root / package).glob("*.py")]
    return {path.stem: path for path in found if not path.stem.startswith("_")}


def listing() -> str:
    """Return the commands in groups, with one line each."""
    lines_of = commands()
    width = max(map(len, lines_of))
    rest = lines_of.keys() - {name for names in GROUPS.values() for name in names}
    lines = ["Usage: dml COMMAND [--flags]; dml COMMAND --help explains a command."]
    for title, names in {**GROUPS, "Other": sorted(rest)}.items():
        known = [name for name in names if name in lines_of]
        lines += ["", f"{title}:"] if known else []
        texts = {name: textwrap.shorten(lines_of[name], _WIDTH - width - 4, placeholder=" ...") for name in known}
        lines += [f"  {name:{width}}  {text}" for name, text in texts.items()]
    return "\n".join(lines)


def _unknown(name: str) -> int:
    """Report an unknown command with the nearest name, and return the exit code."""
    near = difflib.get_close_matches(name.replace("-", "_"), commands(), n=1, cutoff=0.5)
    nearest = f" Did you mean {near[0]}?" if near else ""
    message = removal_of(name) or f"Invalid command: received {name!r}.{nearest} `dml` lists all commands."
    sys.stderr.write(f"\nerror: {message}\n")
    return 2


if __name__ == "__main__":
    main()
