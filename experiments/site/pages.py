"""The first page of a report, by study, and the names of its pages."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from experiments import reports
from experiments.protocols.fair_report import MethodReport
from experiments.reports.tables import numbered
from experiments.site.charts import curve_chart
from experiments.site.groups import Study
from experiments.site.markup import plural, render

GENERATOR = "experiments.report"
_SIGNS = {"reproduced": "✓ ", "above": "▲ ", "below": "▼ ", "inconclusive": "? "}


def index_page(studies: Sequence[Study], problems: Sequence[str], source: str, looks: Mapping[str, dict | None]) -> str:
    """Build the first page; `problems` are of runs that no study can show."""
    methods = [method for study in studies for method in study.methods]
    finished = sum(len(method.runs.finished) for method in methods)
    begun = sum(len(method.runs.units) for method in methods)
    counts = f"{plural(len(studies), 'study', 'studies')}, {plural(len(methods), 'method')}"
    return render(
        "index.html",
        title="Deep metric learning: report",
        generator=GENERATOR,
        summary=f"{counts}, {plural(finished, 'finished run')} of {begun} begun, read from",
        source=source,
        problems=problems,
        studies=[{**_section(study), "look": looks.get(study.title)} for study in studies],
        method_file=method_file,
    )


def method_file(method: MethodReport) -> str:
    """Return the file name of a method's page."""
    runs = method.runs
    name = f"{runs.protocol}-{runs.dataset}-{runs.path.name}".lower()
    return re.sub(r"[^a-z0-9]+", "-", name).strip("-") + ".html"


def _section(study: Study) -> dict[str, Any]:
    """Return the values of a study's section: its table with notes, and its chart."""
    rows = reports.compared(study.rows) if study.rows else []
    columns = list(dict.fromkeys(column for row in rows for column in row.cells))
    links = {method.name: method_file(method) for method in reversed(study.methods)}
    reasons: list[str] = []
    lines = [_line(row, columns, links, reasons) for row in rows]
    recipes = dict.fromkeys(f"{method.config.recipe} (chapter {method.config.chapter})" for method in study.methods)
    return {
        "title": study.title,
        "recipes": ", ".join(recipes),
        "missing": study.missing,
        "methods": study.methods,
        "heads": ["method", *map(" ".join, columns)],
        "rows": lines,
        "notes": [*reports.footnotes(rows, reasons), *study.notes],
        "chart": curve_chart(study.curves, study.metric),
    }


def _line(row: reports.TableRow, columns: Sequence[tuple], links: Mapping[str, str], reasons: list[str]) -> dict:
    # The conventional protocol has several rows per method: "pnca+gap, best of 3".
    page = links.get(row.method) or links.get(row.method.rpartition(", ")[0])
    return {"name": row.method, "page": page, "cells": [_cell(row.cells.get(column), reasons) for column in columns]}


def _cell(cell: reports.TableCell | None, reasons: list[str]) -> dict[str, Any]:
    """Return a cell's lines, each with its style: the figure, its interval and comparisons."""
    text = reports.cell_text(cell)
    if cell is None:
        return {"is_empty": True, "lines": [("", text.figure)]}
    differs = None
    if cell.comparison:
        differs = f"p, Holm's p: {text.p_values}" if text.p_values else "not tested: no spread of training is known"
    lines = [
        ("figure", text.figure),
        ("detail", text.interval),
        ("detail", cell.bounds and f"interval: {cell.bounds.kind}"),
        ("detail", text.published and f"published {text.published}"),
        ("detail", text.difference and f"minus published {text.difference}"),
        (f"verdict is-{text.verdict.replace(' ', '-')}", _verdict(text, reasons)),
        ("detail", differs),
        ("detail", text.detectable and f"detectable: {text.detectable} or more"),
    ]
    return {"is_empty": False, "lines": [(style, line) for style, line in lines if line]}


def _verdict(text: reports.CellText, reasons: list[str]) -> str:
    """Format a verdict with its margin; number its reason in `reasons`."""
    margin = f", margin {text.margin}" if text.margin else ""
    return numbered(f"{_SIGNS.get(text.verdict, '')}{text.verdict}{margin}", text.reason, reasons)
