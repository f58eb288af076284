"""Tables of text: aligned for a terminal, as Markdown, LaTeX and CSV."""

from __future__ import annotations

import csv
import io
import textwrap
from collections.abc import Collection, Sequence
from dataclasses import dataclass

_LATEX = str.maketrans(
    {
        **{sign: f"\\{sign}" for sign in "%&#_${}"},
        **{sign: f"${sign}$" for sign in "<>|"},  # as text they print as other signs
        "\\": r"\textbackslash{}",
        "^": r"\^{}",
        "~": r"\~{}",
        "±": r"$\pm$",
        "†": r"\dag{}",
    }
)


@dataclass(frozen=True)
class PlainTable:
    """Rows of text under a header.

    Args:
        title: above the table; may be empty.
        header: names of the columns; the first column is aligned left, the others right.
        rows: as many entries as the header has.
        notes: sentences below.
        hanging: indices of rows that belong to the row above them and are set apart from it.
    """

    title: str
    header: Sequence[str]
    rows: Sequence[Sequence[str]]
    notes: Sequence[str] = ()
    hanging: Collection[int] = ()

    def as_text(self) -> str:
        """Align columns; empty lines separate rows with others hanging below them."""
        lines = [self.header, *self.rows]
        widths = [max(len(line[column]) for line in lines) for column in range(len(self.header))]

        def aligned(line):
            first, *others = line
            return "  ".join([first.ljust(widths[0]), *(text.rjust(w) for text, w in zip(others, widths[1:]))]).rstrip()

        rule = "-" * (sum(widths) + 2 * (len(widths) - 1))
        body = []
        for index, row in enumerate(self.rows):
            if self.hanging and index and index not in self.hanging:
                body.append("")
            body.append(aligned(row))
        notes = [textwrap.fill(note, max(len(rule), 60), subsequent_indent="    ") for note in self.notes]
        return "\n".join([*self._titles(""), rule, aligned(self.header), rule, *body, rule, *notes]) + "\n"

    def as_markdown(self) -> str:
        """Format as GitHub Markdown."""
        titles = [*self._titles("### "), ""] if self.title else []
        lines = [*titles, _piped(self.header), "|---" + "|---:" * (len(self.header) - 1) + "|"]
        for index, (first, *others) in enumerate(self.rows):
            if self.hanging:
                first = f"*{first.strip()}*" if index in self.hanging else f"**{first}**"
            lines.append(_piped([first, *others]))
        return "\n".join([*lines, "", *(f"{note}  " for note in self.notes)]).rstrip() + "\n"

    def as_latex(self) -> str:
        """Format as a LaTeX `tabular` without packages, notes below."""
        columns = "l" + "r" * (len(self.header) - 1)
        lines = [_latex_text(title) + r"\\" for title in self._titles("")]
        lines += [r"\begin{tabular}{" + columns + "}", r"\hline", _latex(self.header), r"\hline"]
        for index, row in enumerate(self.rows):
            lines.append((r"\quad " if index in self.hanging else "") + _latex([row[0].strip(), *row[1:]]))
        lines += [r"\hline", r"\end{tabular}", *(r"\par " + _latex_text(note) for note in self.notes)]
        return "\n".join(lines) + "\n"

    def as_csv(self) -> str:
        """Format header and rows as CSV, without title and notes."""
        text = io.StringIO()
        writer = csv.writer(text, lineterminator="\n")
        writer.writerows([self.header, *self.rows])
        return text.getvalue()

    def _titles(self, prefix: str) -> list[str]:
        return [prefix + self.title] if self.title else []


def _piped(entries: Sequence[str]) -> str:
    return "| " + " | ".join(entry.replace("|", r"\|") for entry in entries) + " |"


def _latex(entries: Sequence[str]) -> str:
    return " & ".join(_latex_text(entry) for entry in entries) + r" \\"


def _latex_text(text: str) -> str:
    return text.translate(_LATEX)
