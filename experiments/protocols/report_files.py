"""Files of a protocol's report: Markdown, CSV and LaTeX tables, and validation curves."""

from __future__ import annotations

import pathlib
import textwrap
from collections.abc import Sequence

from common.files import write_text
from experiments import reports


def write_report_files(
    rows: Sequence[reports.TableRow],
    curves: Sequence[reports.Curve],
    folder: pathlib.Path,
    title: str,
    *,
    metric: str = "MAP@R",
    notes: Sequence[str] = (),
    name: str = "report",
) -> tuple[str, str]:
    """Write `<name>.md`, `<name>.csv`, `<name>.tex` and `validation_curves.png`.

    Args:
        rows: of the table; without any, there are no table files.
        curves: of the picture; without any, there is none.
        folder: where the files go.
        title: of table and picture.
        metric: of the curves.
        notes: lines below the table, in the Markdown, the LaTeX and on the terminal.
        name: of the table's files.

    Returns:
        The table for the terminal and the line that names the picture; either may be empty.
    """
    table, picture = "", ""
    if rows:
        renderings = {
            f"{name}.md": "\n\n".join([reports.render_markdown(rows, title).rstrip(), *notes]) + "\n",
            f"{name}.csv": reports.render_csv(rows),
            f"{name}.tex": reports.render_latex(rows, title, notes),
        }
        for file_name, text in renderings.items():
            write_text(folder / file_name, text)
        table = "\n".join([reports.render_text(rows, title), *(textwrap.fill(note, 110) for note in notes)])
    if curves:
        reports.validation_curves(curves, folder / "validation_curves.png", metric=metric, title=title)
        picture = f"Validation curves: {folder / 'validation_curves.png'}"
    return table, picture
