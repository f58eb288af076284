"""Pages of a report: the common frame, and the index by study."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from importlib import resources

from experiments import reports
from experiments.site.charts import curve_chart
from experiments.site.groups import Method, Study
from experiments.site.markup import Markup, joined, plural, tag

GENERATOR = "experiments.report"
_FEW = 6  # lines that are shown without a click
_SIGNS = {"reproduced": "✓ ", "above": "▲ ", "below": "▼ ", "inconclusive": "? "}


def page(title: str, *content: Markup, is_index: bool = False, generator: str = GENERATOR) -> str:
    """Build an HTML document that loads only images beside it.

    Args:
        title: of the page and its heading.
        *content: below the heading.
        is_index: whether no link to the index is needed.
        generator: the command that makes it.
    """
    style = (resources.files("experiments.site") / "style.css").read_text(encoding="utf-8")
    head = tag(
        "head",
        tag("meta", charset="utf-8"),
        tag("meta", name_="viewport", content="width=device-width, initial-scale=1"),
        tag("meta", name_="color-scheme", content="light dark"),
        tag("meta", name_="generator", content=generator),
        tag("link", rel="icon", href="data:,"),
        tag("title", title),
        tag("style", Markup(style)),
    )
    back = None if is_index else tag("nav", tag("a", "← All studies", href="index.html"), aria_label="Way back")
    body = tag("body", back, tag("main", tag("h1", title), *content))
    return f"<!DOCTYPE html>\n{tag('html', head, body, lang='en')}\n"


def index_page(studies: Sequence[Study], problems: Sequence[str], source: str) -> str:
    """Build the first page.

    Args:
        studies: in order.
        problems: runs that no study can show, a line each.
        source: the runs' folder, as it was given.
    """
    methods = [method for study in studies for method in study.methods]
    finished = sum(len(method.runs.finished) for method in methods)
    begun = sum(len(method.runs.units) for method in methods)
    counts = f"{plural(len(studies), 'study', 'studies')}, {plural(len(methods), 'method')}"
    summary = f"{counts}, {plural(finished, 'finished run')} of {begun} begun, read from "
    contents = [tag("li", tag("a", study.title, href=f"#study-{n}")) for n, study in enumerate(studies, start=1)]
    return page(
        "Deep metric learning: report",
        tag("p", summary, tag("code", source), "."),
        tag("nav", tag("ol", *contents), aria_label="Studies") if len(studies) > 1 else Markup(),
        _warning("Runs that cannot be shown", problems),
        *(_study_section(study, f"study-{number}") for number, study in enumerate(studies, start=1)),
        is_index=True,
    )


def method_file(method: Method) -> str:
    """Return the file name of a method's page."""
    runs = method.runs
    name = f"{runs.protocol}-{runs.dataset}-{runs.path.name}".lower()
    return re.sub(r"[^a-z0-9]+", "-", name).strip("-") + ".html"


def _study_section(study: Study, anchor: str) -> Markup:
    recipes = dict.fromkeys(f"{method.config.recipe} (chapter {method.config.chapter})" for method in study.methods)
    return tag(
        "section",
        tag("h2", study.title),
        tag("p", f"Recipe: {', '.join(recipes)}.", class_="faint"),
        _warning("What is missing", study.missing),
        figures_table(study),
        curve_chart(study.curves, study.metric),
        tag("h3", "Methods"),
        tag("ul", *(_method_card(method) for method in study.methods), class_="cards"),
        id=anchor,
    )


def _method_card(method: Method) -> Markup:
    runs = method.runs
    counts = f"{runs.protocol}, {len(runs.finished)} of {plural(len(runs.units), 'begun run')} finished"
    hash_ = tag("span", "configuration ", tag("code", runs.config_hash), class_="detail")
    link = tag("a", method.label, href=method_file(method))
    return tag("li", link, tag("span", counts, class_="detail"), hash_, class_="card")


def _warning(title: str, lines: Sequence[str]) -> Markup:
    """Show lines in a box, collapsed if many; empty without lines."""
    if not lines:
        return Markup()
    listed = tag("ul", *(tag("li", line) for line in lines))
    if len(lines) <= _FEW:
        return tag("div", tag("strong", title), listed, class_="warning")
    return tag("details", tag("summary", f"{title} ({len(lines)} lines)"), listed, class_="warning")


def figures_table(study: Study) -> Markup:
    """Tabulate methods by metric with intervals and verdicts, or a placeholder sentence."""
    if not study.rows:
        return tag("p", "No method has finished a run that a table could show.")
    rows = reports.compared(study.rows)
    columns = list(dict.fromkeys(column for row in rows for column in row.cells))
    links = {method.label: method_file(method) for method in reversed(study.methods)}
    reasons: list[str] = []
    heads = [tag("th", "method", scope="col"), *(tag("th", " ".join(column), scope="col") for column in columns)]
    lines = [_line(row, columns, links, reasons) for row in rows]
    caption = "Percent on test classes unseen in training; below each figure its 95 % interval and what it is for."
    table = tag(
        "table",
        tag("caption", caption),
        tag("thead", tag("tr", *heads)),
        tag("tbody", *lines),
        class_="figures",
    )
    notes = [f"[{number}] {reason}" for number, reason in enumerate(reasons, start=1)]
    notes += [*reports.footnotes(rows), *study.notes]
    scrolled = tag("div", table, class_="scroll", tabindex=0, role="region", aria_label=f"Table: {study.title}")
    return joined([scrolled, tag("ul", *(tag("li", note) for note in notes), class_="notes") if notes else None])


def _line(row: reports.TableRow, columns: Sequence[tuple], links: Mapping[str, str], reasons: list[str]) -> Markup:
    # The conventional protocol has several rows per method: "pnca+gap, best of 3".
    page_of = links.get(row.method) or links.get(row.method.rpartition(", ")[0])
    name = tag("a", row.method, href=page_of) if page_of else row.method
    cells = [_cell(row.cells.get(column), " ".join(column), reasons) for column in columns]
    return tag("tr", tag("th", name, scope="row"), *cells)


def _cell(cell: reports.TableCell | None, label: str, reasons: list[str]) -> Markup:
    text = reports.cell_text(cell)
    if cell is None:
        return tag("td", tag("span", text.figure), class_="is-empty", data_label=label)
    differs = None
    if cell.comparison:
        differs = f"p, Holm's p: {text.p_values}" if text.p_values else "not tested: no spread of training is known"
    parts = [
        tag("span", text.figure, class_="figure"),
        _detail(text.interval),
        _detail(f"interval: {cell.bounds.kind}" if cell.bounds else None),
        _detail(text.published and f"published {text.published}"),
        _detail(text.difference and f"minus published {text.difference}"),
        _verdict(text, reasons),
        _detail(differs),
        _detail(text.detectable and f"detectable: {text.detectable} or more"),
    ]
    return tag("td", *parts, data_label=label)


def _detail(text: str | None) -> Markup | None:
    return tag("span", text, class_="detail") if text else None


def _verdict(text: reports.CellText, reasons: list[str]) -> Markup | None:
    if not text.verdict:
        return None
    word = _SIGNS.get(text.verdict, "") + text.verdict + (f", margin {text.margin}" if text.margin else "")
    if text.reason:
        if text.reason not in reasons:
            reasons.append(text.reason)
        word += f" [{reasons.index(text.reason) + 1}]"
    return tag("span", word, class_=f"verdict is-{text.verdict.replace(' ', '-')}")
