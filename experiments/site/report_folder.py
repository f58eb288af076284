"""A report's folder: missing drawings, a page per method, and the index."""

from __future__ import annotations

import pathlib
from collections.abc import Callable
from typing import NamedTuple

from common.commands.exit_code import import_tensorflow
from common.errors import InvalidInput, check_given, invalid
from common.files import write_text
from common.pages.markup import plural
from common.progress import progress_bar
from experiments.parts.datasets import traits_of
from experiments.rows.rows import Row
from experiments.rows.run_folders import collect, finished
from experiments.runs.trained_model import DataFolder
from experiments.site.drawings import READABLE, Drawings
from experiments.site.drawn_run import DrawnRun, mean_score, verdict_of
from experiments.site.groups import Study, read_studies
from experiments.site.pages import GENERATOR, first_drawable, index_page, method_file, method_page

FIRST_LOOK = (6, 5)  # queries, and neighbours of each


class DrawingOptions(NamedTuple):
    """Amounts to draw of each method."""

    num_queries: int = 8  # of the retrieval grid, as `num_neighbors`
    num_neighbors: int = 8
    num_images: int = 6  # of the attention maps, as `num_prototypes`, the most used ones
    num_prototypes: int = 4
    num_classes: int = 10  # of the map of embeddings


def write_report(runs_dir: pathlib.Path, output: pathlib.Path, data: DataFolder, options: DrawingOptions) -> str:
    """Draw missing images, write the pages, remove obsolete ones; return a line for people."""
    found = runs_under(runs_dir)
    check_output(output)
    studies, problems = read_studies(found)
    drawings, written = Drawings(output), set()
    looks = {study.title: _first_look(study, drawings, data) for study in studies}
    methods = [method for study in studies for method in study.methods]
    for method in progress_bar(methods, desc="methods drawn"):
        row = first_drawable(method.runs)
        records = _records(DrawnRun(row, method.config, data, drawings), options) if row else {}
        write_text(output / method_file(method), method_page(method, records, row, output))
        written.add(method_file(method))
    write_text(output / "index.html", index_page(studies, problems, str(runs_dir), looks))
    drawings.remove_unused()
    _remove_old_pages(output, written | {"index.html"})
    for name in sorted(written | {"index.html"}):
        (output / name).chmod(READABLE)
    counts = f"{plural(len(studies), 'study', 'studies')}, {plural(len(methods), 'method')}"
    return f"{counts}. Open {output / 'index.html'}"


def runs_under(runs_dir: pathlib.Path) -> list[list[Row]]:
    """List the runs of all configurations in a folder."""
    if not runs_dir.is_dir():
        raise invalid("--runs", received=str(runs_dir), expected="an existing folder of runs")
    found = collect(runs_dir)
    if not found:
        raise invalid(
            "--runs",
            received=f"{runs_dir}, in which there is no run",
            expected="<protocol>/<data set>/<method>-<hash>/fold<k>-repeat<r> below it",
            fix="Give the folder that --runs_dir of fair_eval or conventional_eval named.",
        )
    return found


def check_output(output: pathlib.Path) -> None:
    """Refuse a folder whose pages are not from this command."""
    if output.exists() and not output.is_dir():
        raise invalid("--output", received=str(output), expected="a folder, or a name that is free")
    index = output / "index.html"
    if index.exists() and not _is_report(index):
        raise InvalidInput(f"Invalid --output: {index} is no report and would be overwritten. Give another folder.")


def _is_report(path: pathlib.Path) -> bool:
    return f'content="{GENERATOR}"' in path.read_text(encoding="utf-8", errors="replace")[:1000]


def _remove_old_pages(output: pathlib.Path, written: set[str]) -> None:
    for path in sorted(output.glob("*.html")):
        if path.name not in written and _is_report(path):
            path.unlink()


def _records(run: DrawnRun, options: DrawingOptions) -> dict[str, dict]:
    """Draw a run, by kind."""
    return {
        "retrieval": _record(run, "retrieval", run.retrieval, (options.num_queries, options.num_neighbors)),
        "attention": _record(run, "attention", run.attention, (options.num_images, options.num_prototypes)),
        "map": _record(run, "map", run.map, (options.num_classes,)),
    }


def _first_look(study: Study, drawings: Drawings, data: DataFolder) -> dict | None:
    """Draw the beginning of a report of custom data, or return None."""
    done = [(method, runs) for method in study.methods if (runs := [*finished(method.runs).values()])]
    if not done or not traits_of(study.methods[0].config.dataset).custom:
        return None
    method, runs = max(done, key=lambda each: mean_score(each[1]))
    run = DrawnRun(check_given("run", first_drawable(runs)), method.config, data, drawings)
    record = _record(run, "look", run.first_look, FIRST_LOOK)
    return {**record, "verdict": verdict_of(runs), "method": method.name}


def _record(run: DrawnRun, kind: str, draw: Callable[..., dict], amounts: tuple[int, ...]) -> dict:
    """Return a record, drawn if need be; a failed one is its reason."""
    tf = import_tensorflow()

    def drawn() -> dict:
        try:
            return draw(*amounts)
        except (InvalidInput, OSError, tf.errors.OpError) as error:
            return {"reason": f"Not drawn: {error}", "is_incomplete": True}

    return run.drawings.record(kind, run.row, amounts, drawn)
