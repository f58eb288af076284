"""Line below a table: its command, runs, machine, versions and data."""

from __future__ import annotations

import itertools
import operator
from collections.abc import Iterable, Mapping, Sequence

from experiments.rows.rows import COLLECTION

_MOST_COMMANDS = 4
_VECTORS = (("avx512f", "AVX-512"), ("avx2", "AVX2"), ("avx", "AVX"))


def provenance(rows: Sequence[Mapping]) -> str:
    """Return Markdown: command, runs, commit, processor, threads, versions, data hash.

    Values that older runs did not record are named as such.

    Args:
        rows: of runs; collections are not counted.
    """
    runs = [row for row in rows if row["kind"] != COLLECTION]
    environments = [row["environment"] for row in runs]
    parts = [
        _commands(runs),
        f"{len(runs)} run{'s' if len(runs) > 1 else ''}",
        _stated("commit", [environment["commit"] for environment in environments]),
        _joined(_processor(environment) for environment in environments),
        _joined(_threads(environment) for environment in environments),
        _joined(f"TensorFlow {of['tensorflow']}, Keras {of['keras']}" for of in environments),
        _stated("data", [row["data"] for row in runs]),
    ]
    return f"<sub>From rows: {'; '.join(parts)}.</sub>"


def _commands(runs: Iterable[Mapping]) -> str:
    """Return all commands; of many, the words they share and the flags that differ."""
    commands = sorted({row["command"] for row in runs if row["command"]})
    if len(commands) <= _MOST_COMMANDS:
        return ", ".join(f"`{command}`" for command in commands) or "command not recorded"
    by_module = itertools.groupby(map(str.split, commands), key=operator.itemgetter(slice(3)))  # python -m MODULE
    return ", ".join(_common([*of]) for _, of in by_module)


def _common(commands: Sequence[Sequence[str]]) -> str:
    shared = [word for word in commands[0] if all(word in others for others in commands)]
    if len(commands) == 1:
        return f"`{' '.join(shared)}`"
    differing = sorted({f"`{word.partition('=')[0]}`" for each in commands for word in each if word not in shared})
    return f"{len(commands)} commands `{' '.join(shared)}` that differ in {', '.join(differing)}"


def _stated(name: str, values: Sequence[str | None]) -> str:
    found = sorted({value for value in values if value is not None})
    if not found:
        return f"{name} not recorded"
    unknown = f" ({values.count(None)} not recorded)" if None in values else ""
    return f"{name} {', '.join(found)}{unknown}"


def _processor(environment: Mapping) -> str:
    instructions = environment["vector_instructions"]
    kind = "vector instructions not recorded"
    if instructions is not None:
        kind = next((name for prefix, name in _VECTORS if prefix in instructions), "no AVX")
    return f"{environment['cpu'] or 'processor not recorded'} ({kind})"


def _threads(environment: Mapping) -> str:
    count = environment["threads"]
    if count is not None:
        return f"{count} thread{'s' * (count > 1)}"
    is_recorded = environment["vector_instructions"] is not None  # both came with one version
    return "as many threads as TensorFlow chooses" if is_recorded else "threads not recorded"


def _joined(texts: Iterable[str]) -> str:
    return " and ".join(sorted(set(texts)))
