"""Files of a protocol's report: Markdown, CSV and LaTeX tables, and validation curves."""

from __future__ import annotations

import pathlib
import textwrap
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from common.files import write_text
from experiments import reports
from experiments.reports.plain_tables import TERMINAL_WIDTH


def print_report(text: str, folder: pathlib.Path, details: bool, pattern: str = "*.md") -> None:
    """Print a report's text; before it, with `details`, its Markdown files."""
    for path in sorted(folder.glob(pattern)) if details else ():
        print(path.read_text(encoding="utf-8"))
    print(text)


def write_report_files(
    rows: Sequence[reports.TableRow],
    curves: Sequence[reports.Curve],
    folder: pathlib.Path,
    title: str,
    *,
    metric: str = "MAP@R",
    explanations: Sequence[str] = (),
    notes: Sequence[str] = (),
    name: str = "report",
) -> tuple[str, str]:
    """Write `<name>.md`, `<name>.csv`, `<name>.tex` and `validation_curves.png`.

    Args:
        rows: of the table; without any, there are no table files.
        curves: of the picture; without any, there is none.
        explanations: lines below the table in the Markdown and LaTeX.
        notes: further ones, also for the terminal.

    Returns:
        The table for the terminal, and lines that name picture and details; either may be empty.
    """
    table, places = "", []
    if curves:
        reports.validation_curves(curves, folder / "validation_curves.png", metric=metric, title=title)
        places.append(f"Validation curves: {folder / 'validation_curves.png'}")
    if rows:
        below = [*explanations, *notes]
        markdown = reports.full_table(rows, title).as_markdown().rstrip()
        write_text(folder / f"{name}.md", "\n\n".join([markdown, *below]) + "\n")
        write_text(folder / f"{name}.csv", reports.render_csv(rows))
        write_text(folder / f"{name}.tex", reports.full_table(rows, title, below).as_latex())
        table = "\n".join([reports.render_text(rows, title), *(textwrap.fill(note, TERMINAL_WIDTH) for note in notes)])
        places.append(f"Details (--details prints them): {folder / name}.md")
    return table, "\n".join(places)


def write_tables(
    rows: Sequence[reports.TableRow], folder: pathlib.Path, name: str, title: str, notes: Sequence[str] = ()
) -> str:
    """Write `<name>.md` and `<name>.csv` with notes; return the terminal's text."""
    write_text(folder / f"{name}.md", reports.full_table(rows, title, notes).as_markdown())
    write_text(folder / f"{name}.csv", reports.render_csv(rows))
    return reports.render_text(rows, title, notes)


def rows_before(methods: Iterable[Any]) -> list[reports.TableRow]:
    """Return the `untrained_rows` of the method that recorded most of them."""
    return max((method.untrained_rows() for method in methods), key=len, default=[])


class MethodWarning(NamedTuple):
    """A warning of a method; `str` gives it alone."""

    method: str  # its name; empty: the problem names its subject
    problem: str  # in words, with its own full stop if there is no remedy
    remedy: str = ""  # a sentence

    def __str__(self) -> str:
        said = f"{self.method}: {self.problem}" if self.method else self.problem
        return f"{said}. {self.remedy}" if self.remedy else said


def warning_lines(warnings: Sequence[MethodWarning]) -> list[str]:
    """Merge warnings with the same problem or remedy."""
    merged: dict[str, dict[str, list[str]]] = {}  # methods by remedy and problem
    for method, problem, remedy in dict.fromkeys(warnings):
        merged.setdefault(remedy or problem, {}).setdefault(problem, []).append(method)
    lines = []
    for remedy, problems in merged.items():
        said = "; ".join(str(MethodWarning(", ".join(of), problem)) for problem, of in problems.items())
        text = f"warning: {said}" if remedy in problems else f"warning: {said}. {remedy}"
        lines.append(textwrap.fill(text, TERMINAL_WIDTH, break_long_words=False, break_on_hyphens=False))  # whole paths
    return lines
