"""JSON objects in files, written atomically; damaged ones are read as None."""

from __future__ import annotations

import json
import os
import pathlib

from common.files.atomic import write_text


def write_json(path: str | os.PathLike, content: dict | None) -> None:
    """Write `content` as indented JSON, atomically; refuse NaN (`ValueError`)."""
    write_text(path, json.dumps(content, indent=1, sort_keys=True, allow_nan=False) + "\n")


def read_json(path: str | os.PathLike) -> dict | None:
    """Return the JSON object in `path`, or `None` if missing or damaged."""
    try:
        return parsed_object(pathlib.Path(path).read_bytes())
    except FileNotFoundError:
        return None


def read_json_lines(path: str | os.PathLike) -> list[dict]:
    """Return the JSON objects of a file's undamaged lines; none without the file."""
    try:
        text = pathlib.Path(path).read_text(encoding="utf-8", errors="replace")
    except FileNotFoundError:
        return []
    return [found for line in text.splitlines() if (found := parsed_object(line)) is not None]


def parsed_object(text: str | bytes) -> dict | None:
    """Parse a text as a JSON object; return `None` for anything else."""
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):  # of JSON, or of UTF-8
        return None
    return value if isinstance(value, dict) else None
