"""Small tables of text: aligned for a terminal, and as Markdown."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class PlainTable:
    """Rows of text under a header.

    Args:
        title: above the table.
        header: names of the columns; the first column is aligned left, the others right.
        rows: as many entries as the header has.
        notes: sentences below.
    """

    title: str
    header: Sequence[str]
    rows: Sequence[Sequence[str]]
    notes: Sequence[str] = ()

    def as_text(self) -> str:
        """In aligned columns."""
        lines = [self.header, *self.rows]
        widths = [max(len(line[column]) for line in lines) for column in range(len(self.header))]

        def aligned(line):
            first, *others = line
            return "  ".join([first.ljust(widths[0]), *(text.rjust(w) for text, w in zip(others, widths[1:]))]).rstrip()

        rule = "-" * (sum(widths) + 2 * (len(widths) - 1))
        body = [rule, aligned(self.header), rule, *(aligned(row) for row in self.rows), rule]
        return "\n".join([self.title, *body, *self.notes]) + "\n"

    def as_markdown(self) -> str:
        """As GitHub Markdown."""
        lines = [f"### {self.title}", "", _piped(self.header), "|---" + "|---:" * (len(self.header) - 1) + "|"]
        lines += [_piped(row) for row in self.rows]
        return "\n".join([*lines, "", *(f"{note}  " for note in self.notes)]).rstrip() + "\n"


def _piped(entries: Sequence[str]) -> str:
    return "| " + " | ".join(entry.replace("|", r"\|") for entry in entries) + " |"
