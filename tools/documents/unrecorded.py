"""Tables and pictures without rows: listed with a reason, printed below each table.

The list is `results/without_rows.json`; `REASONS` defines the reasons.
"""

from __future__ import annotations

import json
import pathlib
import re
from collections.abc import Collection, Mapping, Sequence
from typing import Any, NamedTuple

from common.errors import InvalidInput, check_choice
from common.files import read_json, write_text

LIST = pathlib.Path("results", "without_rows.json")
REASONS: Mapping[str, str] = {  # and what the document says below the table; empty: nothing was measured
    "words": "",
    "print": "*Quoted from the thesis; not measured here.*",
    "index": "*Quoted from the linked documents; a test compares the figures.*",
    "computed": "*Computed without training by the command above, which always prints the same. No rows are kept.*",
    "benchmark": "*Printed by the command above. The figures depend on the machine; no rows are kept.*",
}
_HEADING = re.compile(r"^#+ +(.*)$")
_RULE = re.compile(r"^\|[\s:|-]+\|\s*$")


class Table(NamedTuple):
    """Table of a document.

    Attributes:
        section: the heading above it, without signs.
        header: its first line.
        start, end: its lines, from 0; the end is the first line after.
    """

    section: str
    header: str
    start: int
    end: int


class WithoutRows(NamedTuple):
    """Reasons of tables by (document, section, header), of pictures by path."""

    tables: Mapping[tuple[str, str, str], str]
    pictures: Mapping[str, str]


def read_list(root: pathlib.Path) -> WithoutRows:
    """Read `results/without_rows.json`.

    Args:
        root: of the repository.

    Raises:
        InvalidInput: it is missing or damaged, or gives an unknown reason.
    """
    content: Any = read_json(root / LIST)  # None, which the message below is for, too
    try:
        tables = {(of["document"], of["section"], of["header"]): of["reason"] for of in content["tables"]}
        pictures = {of["picture"]: of["reason"] for of in content["pictures"]}
    except (KeyError, TypeError) as error:
        raise InvalidInput(
            f"{LIST} is missing or damaged: expected lists `tables` (document, section, header, reason) and `pictures` "
            "(picture, reason)."
        ) from error
    for reason in (*tables.values(), *pictures.values()):
        check_choice(f"reason in {LIST}", reason, REASONS)
    return WithoutRows(tables, pictures)


def remove(root: pathlib.Path, entries: Collection[tuple[str, ...]]) -> WithoutRows:
    """Remove entries from the list; return the rest.

    Args:
        root: of the repository.
        entries: (document, section, header) of tables, (picture,) of pictures.
    """
    content = read_json(root / LIST) or {}
    keys = {"tables": ("document", "section", "header"), "pictures": ("picture",)}
    kept = {
        kind: [entry for entry in content[kind] if tuple(entry[name] for name in names) not in entries]
        for kind, names in keys.items()
    }
    write_text(root / LIST, json.dumps(kept, indent=1, sort_keys=True, ensure_ascii=False) + "\n")
    return read_list(root)


def tables_of(text: str) -> list[Table]:
    """Return the Markdown tables of a document, outside of code.

    Args:
        text: of the document.
    """
    lines, found, section, is_code, place = text.splitlines(), [], "", False, 0
    while place < len(lines):
        line = lines[place]
        is_code ^= line.startswith("```")
        heading = None if is_code else _HEADING.match(line)
        section = heading[1] if heading else section
        is_table = not is_code and line.startswith("|") and place + 1 < len(lines) and _RULE.match(lines[place + 1])
        end = place + 1
        if is_table:
            end = next((index for index in range(place, len(lines)) if not lines[index].startswith("|")), len(lines))
            found.append(Table(section, line, place, end))
        place = end
    return found


def with_reasons(text: str, tables: Sequence[tuple[Table, str]]) -> str:
    """Insert each table's reason in the first line of text below it.

    Args:
        text: of the document.
        tables: of it, and why each has no rows, from top to bottom.
    """
    lines = text.splitlines()
    for table, reason in reversed(tables):
        said = REASONS[reason]
        below = next((index for index in range(table.end, len(lines)) if lines[index].strip()), len(lines))
        present = lines[below] if below < len(lines) else ""
        if present in filter(None, REASONS.values()):
            lines[table.end : below + 1] = ["", said] if said else []
        elif said:
            lines[table.end : table.end] = ["", said]
    return "\n".join(lines) + "\n"
