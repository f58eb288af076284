"""JSON objects in files, written atomically; a damaged one reads as none."""

from __future__ import annotations

import json
import os
import pathlib

from common.files.atomic import write_text


def write_json(path: str | os.PathLike, content: dict | None) -> None:
    """Writes `content` as indented JSON, atomically; NaN is refused (`ValueError`)."""
    write_text(path, json.dumps(content, indent=1, sort_keys=True, allow_nan=False) + "\n")


def read_json(path: str | os.PathLike) -> dict | None:
    """The JSON object in `path`, or `None` when the file is missing or damaged."""
    try:
        return parsed_object(pathlib.Path(path).read_bytes())
    except FileNotFoundError:
        return None


def parsed_object(text: str | bytes) -> dict | None:
    """The JSON object that a text is, or `None` when it is another value or no JSON."""
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):  # of JSON, or of UTF-8
        return None
    return value if isinstance(value, dict) else None
