"""Line below a table: command, runs and commits; rows have the rest."""

from __future__ import annotations

import itertools
import operator
from collections.abc import Iterable, Mapping, Sequence

from experiments.rows.rows import COLLECTION


def provenance(rows: Sequence[Mapping]) -> str:
    """Return Markdown: command, number of runs, commits.

    Args:
        rows: of runs; collections are not counted.
    """
    runs = [row for row in rows if row["kind"] != COLLECTION]
    count = f"{len(runs)} run{'s' if len(runs) > 1 else ''}"
    return f"<sub>From rows: {_commands(runs)}; {count}; {_commits(runs)}.</sub>"


def _commands(runs: Iterable[Mapping]) -> str:
    """Return the command, or the shared words and differing flags of several."""
    commands = sorted({row["command"] for row in runs if row["command"]})
    by_module = itertools.groupby(map(str.split, commands), key=operator.itemgetter(slice(3)))  # python -m MODULE
    return ", ".join(_common([*of]) for _, of in by_module) or "command not recorded"


def _common(commands: Sequence[Sequence[str]]) -> str:
    shared = [word for word in commands[0] if all(word in others for others in commands)]
    if len(commands) == 1:
        return f"`{' '.join(shared)}`"
    differing = sorted({f"`{word.partition('=')[0]}`" for each in commands for word in each if word not in shared})
    return f"{len(commands)} commands `{' '.join(shared)}` that differ in {', '.join(differing)}"


def _commits(runs: Sequence[Mapping]) -> str:
    values = [row["environment"]["commit"] for row in runs]
    found = sorted({value for value in values if value is not None})
    if not found:
        return "commit not recorded"
    unknown = f" ({values.count(None)} not recorded)" if None in values else ""
    return f"commit {', '.join(found)}{unknown}"
