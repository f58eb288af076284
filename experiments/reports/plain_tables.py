"""Tables of text: aligned for a terminal, as Markdown, LaTeX and CSV."""

from __future__ import annotations

import csv
import io
import itertools
import pathlib
import textwrap
import unicodedata
from collections.abc import Collection, Sequence
from dataclasses import dataclass

from common.files import write_text

TERMINAL_WIDTH = 100
_WIDEST = 48  # entry of a table that is too wide for the terminal; longer ones are wrapped
_GAP = "  "  # between columns
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
class Table:
    """Rows of text under a header, for a terminal and for files."""

    title: str  # above the table; may be empty
    header: Sequence[str]  # the first column is aligned left, the others right
    rows: Sequence[Sequence[str]]
    notes: Sequence[str] = ()  # sentences below
    hanging: Collection[int] = ()  # indices of rows that belong to the row above them
    keys: int = 1  # leading columns that name a row, and that each block of columns repeats
    short: Sequence[Table] = ()  # what a terminal gets instead
    values: Sequence[Sequence[object]] = ()  # what CSV gets instead, the header first

    def as_text(self) -> str:
        """Align columns within `TERMINAL_WIDTH`; empty lines separate rows with others hanging below them.

        A wider table wraps headers and long entries, then continues in further blocks of columns.
        """
        if self.short:
            return "\n".join(table.as_text() for table in self.short)
        widths = [max(map(display_width, column)) for column in zip(self.header, *self.rows)]
        if _total(widths) > TERMINAL_WIDTH:
            words = itertools.zip_longest(*(name.split() for name in self.header), fillvalue="")
            widths = [min(_WIDEST, max(map(display_width, column))) for column in zip(*self.rows, *words)]
        lines = [line for title in self._titles("") for line in _wrapped(title, TERMINAL_WIDTH)]
        blocks = _blocks(self.header, widths, self.keys)
        rule = "-" * max(_total([widths[column] for column in block]) for block in blocks)
        for block in blocks:
            lines += [rule, *self._lines(block, widths, rule)]
        notes = [line for note in self.notes for line in _wrapped(note, TERMINAL_WIDTH, indent="    ")]
        return "\n".join([*lines, rule, *notes]) + "\n"

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
        """Format header and rows as CSV, without title and notes; None is empty."""
        text = io.StringIO()
        csv.writer(text, lineterminator="\n").writerows(self.values or [self.header, *self.rows])
        return text.getvalue()

    def write(self, folder: pathlib.Path, name: str, *, latex: bool = False) -> str:
        """Write `<name>.md`, `.csv` and optionally `.tex`; return the terminal's text."""
        renderings = {"md": self.as_markdown(), "csv": self.as_csv(), **({"tex": self.as_latex()} if latex else {})}
        for ending, text in renderings.items():
            write_text(folder / f"{name}.{ending}", text)
        return self.as_text()

    def _lines(self, block: Sequence[int], widths: Sequence[int], rule: str) -> list[str]:
        """List the lines of some columns: header, rule, rows."""

        def aligned(entries: Sequence[str]) -> list[str]:
            return _aligned([entries[column] for column in block], [widths[column] for column in block])

        lines = [*aligned(self.header), rule]
        for index, row in enumerate(self.rows):
            lines += [""] if self.hanging and index and index not in self.hanging else []
            lines += aligned(row)
        return lines

    def _titles(self, prefix: str) -> list[str]:
        return [prefix + self.title] if self.title else []


def _piped(entries: Sequence[str]) -> str:
    return "| " + " | ".join(entry.replace("|", r"\|") for entry in entries) + " |"


def _latex(entries: Sequence[str]) -> str:
    return " & ".join(_latex_text(entry) for entry in entries) + r" \\"


def _latex_text(text: str) -> str:
    return text.translate(_LATEX)


def display_width(text: str) -> int:
    """Return the number of terminal columns that a text takes."""
    wide = sum(unicodedata.east_asian_width(sign) in "WF" for sign in text)
    return len(text) + wide - sum(unicodedata.category(sign) in ("Mn", "Me", "Cf") for sign in text)


def _total(widths: Sequence[int]) -> int:
    return sum(widths) + len(_GAP) * (len(widths) - 1)


def _blocks(header: Sequence[str], widths: Sequence[int], keys: int) -> list[list[int]]:
    """Divide columns among blocks that fit, each with the first `keys` columns.

    Neighbours whose names begin with the same word stay together if they fit.
    """
    blocks = [[*range(keys)]]

    def begin_unless_fits(columns: Sequence[int]) -> None:
        if len(blocks[-1]) > keys and _total([widths[column] for column in [*blocks[-1], *columns]]) > TERMINAL_WIDTH:
            blocks.append([*range(keys)])

    for _, together in itertools.groupby(range(keys, len(header)), lambda column: header[column].split(" ")[0]):
        group = [*together]
        begin_unless_fits(group)
        for column in group:
            begin_unless_fits([column])
            blocks[-1].append(column)
    return blocks


def filled(text: str) -> str:
    """Break a text into lines of the terminal; long words stay whole."""
    return textwrap.fill(text, TERMINAL_WIDTH, break_long_words=False, break_on_hyphens=False)


def _aligned(entries: Sequence[str], widths: Sequence[int]) -> list[str]:
    """Align entries in lines, the first to the left, the others to the right."""
    wrapped = [_wrapped(entry, width) for entry, width in zip(entries, widths)]
    height = max(map(len, wrapped))
    lines = []
    for texts in zip(*([""] * (height - len(of)) + of for of in wrapped)):
        blanks = [" " * (width - display_width(text)) for text, width in zip(texts, widths)]
        others = [blank + text for text, blank in zip(texts[1:], blanks[1:])]
        lines.append(_GAP.join([texts[0] + blanks[0], *others]).rstrip())
    return lines


def _wrapped(text: str, width: int, indent: str = "") -> list[str]:
    if display_width(text) <= width:
        return [text]
    signs = width if display_width(text) == len(text) else width // 2  # of which any may take two columns
    return textwrap.wrap(text, signs, subsequent_indent=indent, break_on_hyphens=False)
