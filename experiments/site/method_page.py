"""A method's page: runs, retrieval, attention, map, environment and configuration."""

from __future__ import annotations

import json
import os
import pathlib
import urllib.parse
from collections.abc import Mapping, Sequence

from common.diagnostics.diagnostic_names import NAMES
from common.files import read_json
from experiments.reports import UnitRun, deviation_sentence
from experiments.runs.unit import unit_label
from experiments.settings.config import by_flag_names
from experiments.settings.parts import all_settings
from experiments.site.charts import map_chart
from experiments.site.groups import Method
from experiments.site.markup import Markup, joined, tag
from experiments.site.pages import page

_METRICS = ("P@1", "MAP@R")
_HEADS = ("run", "state", "best validation", "test P@1", "test MAP@R", "untrained P@1", "untrained MAP@R", "training")
_RIGHT, _WRONG = "✓ right", "✗ wrong"


def method_page(method: Method, records: Mapping[str, dict], drawn: UnitRun | None, output: pathlib.Path) -> str:
    """Build the page of one configuration.

    Args:
        method: the configuration and its runs.
        records: of `retrieval`, `attention` and `map`, each with a `"reason"` where something is left out; none
            without a finished run.
        drawn: the run that the records are of.
        output: the report's folder, which links to runs start from.
    """
    config, runs = method.config, method.runs
    facts = f"{runs.protocol} protocol on {config.dataset}, recipe {config.recipe}, budget {config.budget}, "
    drawings = Markup()
    if drawn is not None:
        which = tag("p", f"Drawn from {unit_label(config, drawn.fold, drawn.repeat)}.", class_="faint")
        drawings = joined(
            [_retrieval(records["retrieval"], which, output), _attention(records["attention"]), _map(records["map"])]
        )
    notices = [
        *runs.problems,
        *map(deviation_sentence, runs.deviations),
        *_collapses(method),
    ]
    return page(
        method.label,
        tag("p", facts, "configuration ", tag("code", runs.config_hash), "."),
        tag("div", tag("ul", *(tag("li", notice) for notice in notices)), class_="warning") if notices else Markup(),
        tag("h2", "Runs"),
        _runs_table(method, output),
        drawings,
        _diagnostics(method) or Markup(),
        tag("h2", "Environment"),
        _environments(method),
        tag("h2", "Configuration"),
        _configuration(method),
    )


def _runs_table(method: Method, output: pathlib.Path) -> Markup:
    lines = [_run_line(method, unit, output) for unit in method.runs.units]
    heads = tag("tr", *(tag("th", head, scope="col") for head in _HEADS))
    table = tag("table", tag("thead", heads), tag("tbody", *lines), class_="figures")
    return tag("div", table, class_="scroll", tabindex=0, role="region", aria_label="Runs")


def _run_line(method: Method, unit: UnitRun, output: pathlib.Path) -> Markup:
    path = os.path.relpath(unit.path, output)
    link = tag("a", unit_label(method.config, unit.fold, unit.repeat), href=urllib.parse.quote(os.fsencode(path)) + "/")
    figures = [unit.test_metrics(), unit.untrained_metrics()]
    texts = [_percent(metrics.get(name)) for metrics in figures for name in _METRICS]
    minutes = (unit.result or {}).get("train_seconds")
    cells = [
        "finished" if unit.is_finished else "unfinished",
        _best(unit, method.config.monitor),
        *texts,
        f"{(unit.result or {}).get('steps', 0):,} steps, {minutes / 60:.1f} minutes" if minutes is not None else "-",
    ]
    described = [tag("td", tag("span", text), data_label=head) for head, text in zip(_HEADS[1:], cells)]
    return tag("tr", tag("th", link, scope="row"), *described)


def _best(unit: UnitRun, monitor: str) -> str:
    """Format the largest monitored value (of an unfinished run, so far)."""
    steps, values = unit.validation_curve(monitor)
    if not len(steps):
        return "-"
    return f"{monitor} {100 * values.max():.2f} at step {steps[values.argmax()]:,}"


def _percent(value: float | None) -> str:
    return "-" if value is None else f"{100 * value:.2f}"


def _retrieval(record: dict, which: Markup, output: pathlib.Path) -> Markup:
    parts = [tag("h2", "What it finds"), which, _reason(record)]
    for line in record.get("lines", ()):
        num_right = sum(hit["is_right"] for hit in line["found"])
        title = f"{line['query']['name']}: {num_right} of {len(line['found'])} right"
        tiles = [_tile(line["query"], "query", "is-query", f"Query: {line['query']['name']}", output)]
        for rank, hit in enumerate(line["found"], start=1):
            word, style = (_RIGHT, "is-right") if hit["is_right"] else (_WRONG, "is-wrong")
            text = f"Neighbour {rank}, {word[2:]}: {hit['name']}"
            tiles.append(_tile(hit, word, style, text, output))
        parts += [tag("h3", title), tag("ul", *tiles, class_="strip")]
    return joined(parts)


def _tile(item: dict, word: str, style: str, description: str, output: pathlib.Path) -> Markup:
    """Show a picture above a word, linked to its file if any."""
    shown = (
        tag("img", src=item["image"], alt=description, loading="lazy", width=96, height=96)
        if "image" in item
        else tag("span", "no picture", class_="nothing")
    )
    parts = [tag("span", word, class_="mark-word")]
    if word == _WRONG:  # the others are of the class above
        parts += [tag("br"), item["name"]]
    if "image" in item and "file" in item:
        shown = tag("a", shown, href=urllib.parse.quote(os.fsencode(os.path.relpath(item["file"], output))))
    return tag("li", tag("span", shown, class_="tile"), tag("span", *parts), class_=style)


def _attention(record: dict) -> Markup:
    parts = [tag("h2", "Where it looks"), _reason(record)]
    if record.get("lines"):
        explanation = (
            "Bright (yellow) positions weigh much, dark (violet) ones little; each image has its own scale. The "
            "prototypes, the most used ones, share one that begins at zero."
        )
        parts.append(tag("p", explanation, class_="faint"))
    for line in record.get("lines", ()):
        tiles = [
            tag(
                "li",
                tag("span", _panel(line["name"], panel), class_="tile"),
                tag("span", panel["caption"]),
            )
            for panel in line["panels"]
        ]
        parts += [tag("h3", line["name"]), tag("ul", *tiles, class_="strip")]
    return joined(parts)


def _panel(name: str, panel: dict) -> Markup:
    return tag("img", src=panel["image"], alt=f"{name}, {panel['caption']}", loading="lazy", width=96, height=96)


def _map(record: dict) -> Markup:
    chart = map_chart(record) if record.get("classes") else None
    return joined([tag("h2", "Map of embeddings"), _reason(record), chart])


def _reason(record: dict) -> Markup | None:
    """Explain a missing drawing."""
    reason = record.get("reason")
    return tag("p", reason, class_="warning" if record.get("is_incomplete") else "faint") if reason else None


def _collapses(method: Method) -> list[str]:
    """List the diagnostics' warnings on finished runs."""
    units = method.runs.finished.values()
    found = [(unit, unit.measured.get("diagnostics", {}).get("warning")) for unit in units]
    return [f"{unit_label(method.config, unit.fold, unit.repeat)}: {text}" for unit, text in found if text]


def _diagnostics(method: Method) -> Markup | None:
    """Tabulate diagnostics of test embeddings, one column per run, if recorded."""
    units = [unit for unit in method.runs.finished.values() if unit.measured.get("diagnostics")]
    names = [name for name in NAMES if any(name in unit.measured["diagnostics"] for unit in units)]
    if not names:
        return None
    labels = [unit_label(method.config, unit.fold, unit.repeat) for unit in units]
    heads = tag("tr", *(tag("th", head, scope="col") for head in ("", *labels, "meaning")))
    lines = []
    for name in names:
        values = [unit.measured["diagnostics"].get(name) for unit in units]
        cells = [tag("td", "-" if value is None else f"{value:.4g}") for value in values]
        lines.append(tag("tr", tag("th", name, scope="row"), *cells, tag("td", NAMES[name])))
    table = tag("table", tag("thead", heads), tag("tbody", *lines))
    shown = tag("div", table, class_="scroll", tabindex=0, role="region", aria_label="Diagnostics")
    return joined([tag("h2", "Shape of the embeddings"), shown])


def _environments(method: Method) -> Markup:
    """Show each environment once, with the runs that it computed."""
    groups: dict[str, list[UnitRun]] = {}
    for unit in method.runs.finished.values():
        groups.setdefault(json.dumps(unit.measured.get("environment"), sort_keys=True), []).append(unit)
    if not groups:
        return tag("p", "No run has finished.")
    parts = []
    for text, units in groups.items():
        labels = "; ".join(unit_label(method.config, unit.fold, unit.repeat) for unit in units)
        found = json.loads(text)
        parts.append(tag("h3", labels))
        parts.append(_pairs(found.items()) if isinstance(found, dict) else tag("p", "Not recorded by these runs."))
    return joined(parts)


def _pairs(items) -> Markup:
    entries = []
    for name, value in items:
        text = ", ".join(map(str, value)) or "none" if isinstance(value, list) else value
        text = "not known" if value is None else text
        entries += [tag("dt", name), tag("dd", text)]
    return tag("dl", *entries, class_="pairs")


def _configuration(method: Method) -> Markup:
    stated, sources = by_flag_names(method.runs.config), _sources(method.runs.units)
    lines = []
    for each in all_settings():
        value = stated.get(each.name)
        if value is not None:
            lines.append(_setting(each.name, value, sources.get(each.name), each.metadata["help"]))
    lines.append(_setting("data", stated.get("data"), "the files", "digest of labels and contents of the data set"))
    heads = tag("tr", *(tag("th", head, scope="col") for head in ("field", "value", "set by", "meaning")))
    table = tag("table", tag("thead", heads), tag("tbody", *lines))
    shown = tag("div", table, class_="scroll", tabindex=0, role="region", aria_label="Configuration")
    return tag("details", tag("summary", f"All {len(lines)} values, the same for each run"), shown)


def _sources(units: Sequence[UnitRun]) -> dict[str, str]:
    """Map each flag to the layer that set it; empty if unrecorded."""
    found = (read_json(unit.path / "sources.json") for unit in units)
    sources = next((each for each in found if isinstance(each, dict)), {})
    return {name: source for name, source in sources.items() if isinstance(source, str)}


def _setting(name: str, value, source: str | None, meaning: str) -> Markup:
    texts = (source or "not recorded", meaning.replace("`", ""))
    cells = [tag("td", tag("code", str(value))), *(tag("td", text) for text in texts)]
    return tag("tr", tag("th", tag("code", name), scope="row"), *cells)


def first_drawable(units: Sequence[UnitRun]) -> UnitRun | None:
    """Return the first finished run that still has its test embeddings."""
    finished = [unit for unit in units if unit.is_finished]
    whole = [unit for unit in finished if (unit.path / "test_embeddings.npz").exists()]
    return next(iter(whole or finished), None)
