"""Names and figures for display: tables on the terminal, CSV files."""

from __future__ import annotations

import csv
import io
import math
import os
from collections.abc import Sequence

from common.files import write_text


def shown_text(text: str) -> str:
    """Remove undisplayable characters, such as line breaks and non-UTF-8 bytes."""
    return "".join(letter if letter.isprintable() else repr(letter)[1:-1] for letter in text)


def shown_path(path: str) -> str:
    """Shorten a path below the working directory to a relative one."""
    inside = os.getcwd().rstrip(os.sep) + os.sep
    return shown_text(path[len(inside) :] if path.startswith(inside) else path)


def shown_similarity(similarity: float) -> str:
    """Format a similarity with four decimals; below 1 never shows as 1."""
    return shown_threshold(similarity) if 0.9999 < similarity < 1 else f"{similarity:.4f}"


def shown_threshold(threshold: float) -> str:
    """Format a threshold with four decimals, rounded down to stay reachable."""
    return f"{math.floor(round(1e4 * threshold, 8)) / 1e4:.4f}"


def aligned(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Align rows in columns of equal width, except the last."""
    lines = [list(header), *map(list, rows)]
    widths = [max(len(line[column]) for line in lines) for column in range(len(header) - 1)]
    return "\n".join(
        "  ".join([*(cell.ljust(width) for cell, width in zip(line, widths)), line[-1]]).rstrip() for line in lines
    )


def write_csv(path: str, header: Sequence[str], rows: Sequence[Sequence[object]]) -> None:
    """Write a comma-separated file, atomically."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerows([header, *([shown_text(cell) if isinstance(cell, str) else cell for cell in row] for row in rows)])
    write_text(path, text.getvalue())
