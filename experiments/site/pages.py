"""Pages of a report: the first, by study, and one per method."""

from __future__ import annotations

import functools
import json
import os
import pathlib
import re
import urllib.parse
from collections.abc import Mapping, Sequence
from typing import Any

from common.diagnostics.diagnostic_names import NAMES
from common.files import read_json
from common.pages.markup import plural, render
from common.retrieval.metrics import TABLE_METRICS
from experiments import reports
from experiments.protocols.fair_report import FairReport
from experiments.reports.tables import NO_CELL, numbered
from experiments.rows.rows import UNTRAINED, Row
from experiments.rows.run_folders import config_of, deviations_of, problems_of
from experiments.settings.config import by_flag_names
from experiments.settings.parts import all_settings
from experiments.settings.splits import unit_label
from experiments.site.charts import curve_chart, map_chart
from experiments.site.groups import Study

GENERATOR = "experiments.report"
_SIGNS = {"reproduced": "✓ ", "above": "▲ ", "below": "▼ ", "inconclusive": "? "}
_HEADS = ("run", "state", "best validation", "test P@1", "test MAP@R", "untrained P@1", "untrained MAP@R", "training")


def index_page(studies: Sequence[Study], problems: Sequence[str], source: str, looks: Mapping[str, dict | None]) -> str:
    """Build the first page; `problems` are of runs that no study can show."""
    methods = [method for study in studies for method in study.methods]
    finished = sum(row.is_finished for method in methods for row in method.runs)
    begun = sum(len(method.runs) for method in methods)
    counts = f"{plural(len(studies), 'study', 'studies')}, {plural(len(methods), 'method')}"
    return render(
        "experiments.site",
        "index.html",
        title="Deep metric learning: report",
        generator=GENERATOR,
        summary=f"{counts}, {plural(finished, 'finished run')} of {begun} begun, read from",
        source=source,
        problems=problems,
        studies=[{**_section(study), "look": looks.get(study.title)} for study in studies],
        method_file=method_file,
    )


def method_file(method: FairReport) -> str:
    """Return the file name of a method's page."""
    row = method.runs[0]
    name = f"{row['protocol']}-{row['dataset']}-{row.folder.parent.name}".lower()
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
    return {"name": row.method, "page": page, "cells": [_cell(row[column], reasons) for column in columns]}


def _cell(cell: reports.TableCell, reasons: list[str]) -> dict[str, Any]:
    """Return a cell's lines, each with its style: the figure, its interval and comparisons."""
    if cell is NO_CELL:
        return {"is_empty": True, "lines": [("", cell.figure)]}
    word = cell.verdict.word if cell.verdict else ""
    differs = None
    if cell.comparison:
        differs = f"p, Holm's p: {cell.p_values}" if cell.p_values else "not tested: no spread of training is known"
    lines = [
        ("figure", cell.figure),
        ("detail", cell.interval),
        ("detail", cell.bounds and f"interval: {cell.bounds.kind}"),
        ("detail", cell.printed and f"published {cell.printed}"),
        ("detail", cell.gap and f"minus published {cell.gap}"),
        (f"verdict is-{word.replace(' ', '-')}", _verdict(cell, reasons)),
        ("detail", differs),
        ("detail", cell.detectable and f"detectable: {cell.detectable} or more"),
    ]
    return {"is_empty": False, "lines": [(style, line) for style, line in lines if line]}


def _verdict(cell: reports.TableCell, reasons: list[str]) -> str:
    """Format a verdict with its margin; number its reason in `reasons`."""
    said = cell.verdict
    margin = f", margin {cell.margin}" if cell.margin else ""
    return numbered(f"{_SIGNS.get(said.word, '')}{said.word}{margin}", said.reason, reasons) if said else ""


def method_page(method: FairReport, records: Mapping[str, dict], drawn: Row | None, output: pathlib.Path) -> str:
    """Build a configuration's page, with records of the drawn run.

    Args:
        records: of `retrieval`, `attention` and `map`, each with a `"reason"` where something is left out; none
            without a finished run.
        output: the report's folder, which links to runs start from.
    """
    config, runs = method.config, method.runs
    label = functools.partial(_label, method)
    warnings = [(row, row["extras"].get("diagnostics", {}).get("warning")) for row in runs]
    collapses = [f"{label(row)}: {text}" for row, text in warnings if text]
    return render(
        "experiments.site",
        "method.html",
        title=method.name,
        generator=GENERATOR,
        facts=f"{runs[0]['protocol']} protocol on {config.dataset}, recipe {config.recipe}, budget {config.budget},",
        config_hash=runs[0]["config_hash"],
        notices=[*problems_of(runs), *map(reports.deviation_sentence, deviations_of(runs)), *collapses],
        heads=_HEADS,
        lines=[{"path": row.folder, "label": label(row), "cells": _cells(method, row)} for row in runs],
        drawn=None if drawn is None else label(drawn),
        records=records,
        chart=map_chart(records.get("map", {})),
        diagnostics=_diagnostics(method),
        environments=_environments(method),
        settings=_settings(method),
        link=functools.partial(link_to, output=output),
    )


def link_to(path: str | os.PathLike, output: pathlib.Path) -> str:
    """Return a page's link to a file with any bytes in its name."""
    return urllib.parse.quote(os.fsencode(os.path.relpath(path, output)))


def _label(method: FairReport, row: Row) -> str:
    return unit_label(method.config, *row.place)


def _cells(method: FairReport, row: Row) -> list[str]:
    """Return a run's texts under all heads but the first."""
    values = [row[moment].get(name) for moment in ("test", UNTRAINED) for name in TABLE_METRICS]
    return [
        "finished" if row.is_finished else "unfinished",
        _best(row, method.config.monitor),
        *("-" if value is None else f"{100 * value:.2f}" for value in values),
        f"{row['steps']:,} steps, {row['train_seconds'] / 60:.1f} minutes" if row.is_finished else "-",
    ]


def _best(row: Row, monitor: str) -> str:
    """Format the largest monitored value (of an unfinished run, so far)."""
    steps, values = row.curve(monitor)
    if not len(steps):
        return "-"
    return f"{monitor} {100 * values.max():.2f} at step {steps[values.argmax()]:,}"


def _diagnostics(method: FairReport) -> dict[str, list] | None:
    """Tabulate diagnostics of test embeddings, one column per run, if recorded."""
    runs = [row for row in method.runs if row["extras"].get("diagnostics")]
    found = [row["extras"]["diagnostics"] for row in runs]
    names = [name for name in NAMES if any(name in of for of in found)]
    if not names:
        return None
    lines = []
    for name in names:
        values = [of.get(name) for of in found]
        lines.append((name, ["-" if value is None else f"{value:.4g}" for value in values], NAMES[name]))
    return {"heads": ["", *(_label(method, row) for row in runs), "meaning"], "lines": lines}


def _environments(method: FairReport) -> list[tuple[str, list[tuple[str, object]] | None]]:
    """Return each environment once: its runs, and its entries if recorded."""
    groups: dict[str, list[Row]] = {}
    for row in method.runs:
        if row.is_finished:
            groups.setdefault(json.dumps(row.result.get("environment"), sort_keys=True), []).append(row)
    found = []
    for text, rows in groups.items():
        stated = json.loads(text)
        pairs = [(name, _shown(value)) for name, value in stated.items()] if isinstance(stated, dict) else None
        found.append(("; ".join(_label(method, row) for row in rows), pairs))
    return found


def _shown(value: object) -> object:
    if isinstance(value, list):
        return ", ".join(map(str, value)) or "none"
    return "not known" if value is None else value


def _settings(method: FairReport) -> list[tuple[str, object, str, str]]:
    """Return name, value, source and meaning of every setting, and of the data."""
    stated, sources = by_flag_names(config_of(method.runs)), _sources(method.runs)
    lines = [
        (each.name, stated[each.name], sources.get(each.name) or "not recorded", each.metadata["help"].replace("`", ""))
        for each in all_settings()
        if stated.get(each.name) is not None
    ]
    return [*lines, ("data", stated.get("data"), "the files", "digest of labels and contents of the data set")]


def _sources(runs: Sequence[Row]) -> dict[str, str]:
    """Map each flag to the layer that set it; empty if unrecorded."""
    found = (read_json(row.folder / "sources.json") for row in runs)
    sources = next((each for each in found if isinstance(each, dict)), {})
    return {name: source for name, source in sources.items() if isinstance(source, str)}


def first_drawable(runs: Sequence[Row]) -> Row | None:
    """Return the first finished run that still has its test embeddings."""
    finished = [row for row in runs if row.is_finished]
    whole = [row for row in finished if (row.folder / "test_embeddings.npz").exists()]
    return next(iter(whole or finished), None)
