"""Provenance line below a table: command, number of runs, place and data."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from experiments.rows.rows import COLLECTION


def provenance(rows: Sequence[dict]) -> str:
    """Return Markdown: command, runs, commit, processor, threads, stack, data hash.

    Values that older runs did not record are named as such.

    Args:
        rows: of runs; collections are not counted.
    """
    runs = [row for row in rows if row["kind"] != COLLECTION]
    environments = [row["environment"] for row in runs]
    parts = [
        _commands(row["command"] for row in runs),
        f"{len(runs)} run{'s' if len(runs) > 1 else ''}",
        _stated("commit", (environment["commit"] for environment in environments)),
        _processor(environments),
        _threads(environments),
        _joined({_stack(environment) for environment in environments}),
        _stated("data", (row["data"] for row in runs)),
    ]
    return f"<sub>From rows: {'; '.join(parts)}.</sub>"


def _commands(commands: Iterable[str | None]) -> str:
    found = sorted({command for command in commands if command})
    return ", ".join(f"`{command}`" for command in found) if found else "command not recorded"


def _stated(name: str, values: Iterable[str | None]) -> str:
    stated = list(values)
    found = sorted({value for value in stated if value is not None}, key=str)
    if not found:
        return f"{name} not recorded"
    unknown = f" ({sum(value is None for value in stated)} not recorded)" if None in stated else ""
    return f"{name} {', '.join(found)}{unknown}"


def _processor(environments: Sequence[dict]) -> str:
    found = set()
    for environment in environments:
        instructions = environment["vector_instructions"]
        kind = _vector_kind(instructions) if instructions is not None else "vector instructions not recorded"
        found.add(f"{environment['cpu'] or 'processor not recorded'} ({kind})")
    return _joined(found)


def _vector_kind(instructions: Sequence[str]) -> str:
    for prefix, name in (("avx512f", "AVX-512"), ("avx2", "AVX2"), ("avx", "AVX")):
        if prefix in instructions:
            return name
    return "no AVX"


def _threads(environments: Sequence[dict]) -> str:
    found = set()
    for environment in environments:
        count = environment["threads"]
        if count is None:
            is_recorded = environment["vector_instructions"] is not None  # both came with one version
            found.add("as many threads as TensorFlow chooses" if is_recorded else "threads not recorded")
        else:
            found.add(f"{count} thread{'s' * (count > 1)}")
    return _joined(found)


def _stack(environment: dict) -> str:
    return f"TensorFlow {environment['tensorflow']}, Keras {environment['keras']}"


def _joined(texts: Iterable[str]) -> str:
    return " and ".join(sorted(texts))
