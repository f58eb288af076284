"""Names and figures as they are shown: in a table on the terminal, in a CSV file."""

from __future__ import annotations

import csv
import io
import math
import os
from collections.abc import Sequence

from common.files import write_text


def shown_text(text: str) -> str:
    """A text without what a terminal or a page cannot show, such as line breaks and bytes that are no UTF-8."""
    return "".join(letter if letter.isprintable() else repr(letter)[1:-1] for letter in text)


def shown_path(path: str) -> str:
    """A path relative to the working directory where it is below that."""
    inside = os.getcwd().rstrip(os.sep) + os.sep
    return shown_text(path[len(inside) :] if path.startswith(inside) else path)


def shown_similarity(similarity: float) -> str:
    """A similarity with four decimals; less than 1 is never shown as 1."""
    return shown_threshold(similarity) if 0.9999 < similarity < 1 else f"{similarity:.4f}"


def shown_threshold(threshold: float) -> str:
    """A threshold with four decimals, rounded down: what reaches it reaches what is shown."""
    return f"{math.floor(round(1e4 * threshold, 8)) / 1e4:.4f}"


def aligned(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Rows in columns of equal width, the last column as it is."""
    lines = [list(header), *map(list, rows)]
    widths = [max(len(line[column]) for line in lines) for column in range(len(header) - 1)]
    return "\n".join(
        "  ".join([*(cell.ljust(width) for cell, width in zip(line, widths)), line[-1]]).rstrip() for line in lines
    )


def write_csv(path: str, header: Sequence[str], rows: Sequence[Sequence[object]]) -> None:
    """Writes a comma-separated file, atomically."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerows([header, *([shown_text(cell) if isinstance(cell, str) else cell for cell in row] for row in rows)])
    write_text(path, text.getvalue())
