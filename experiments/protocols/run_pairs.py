"""Two sets of runs beside each other: settings, figures, curves, classes and queries."""

from __future__ import annotations

import pathlib
import textwrap
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from common.data import Examples
from common.errors import InvalidInput, invalid
from common.files import write_text
from experiments.reports.plain_tables import Table
from experiments.reports.plots import Curve, validation_curves
from experiments.reports.scores import Scores
from experiments.reports.tables import bracketed
from experiments.rows.rows import TRAINING, Row, evaluate_embeddings
from experiments.rows.run_folders import collect_method, row_at
from experiments.rows.store import ROWS, StudyRows

_WIDTH = 30  # of a value
NUM_CLASSES = 5  # that gain and that lose most
_CURVES, _QUERIES = "curves.png", "queries.csv"
_COUNTS = ("steps", "best_step", "train_seconds", "processor_seconds")
_RANKED, _COUNTED = "MAP@R", "P@1"  # of classes and of queries


def runs_of(place: str) -> list[Row]:
    """Return the finished runs that a place holds, by fold and repeat.

    Args:
        place: the folder of one run, or of a configuration's runs; or a study's folder, `#` and a row's label.

    Raises:
        InvalidInput: there is no finished run, or no such label.
    """
    name, _, label = place.partition("#")
    folder = pathlib.Path(name)
    if (folder / ROWS).exists():
        rows = [row for row in StudyRows(folder).rows if row["kind"] == TRAINING]
        labels = list(dict.fromkeys(row["label"] for row in rows))
        if label not in labels and (label or len(labels) > 1):
            expected = f"{name}#LABEL with one of: {'; '.join(labels)}"
            raise invalid("runs", received=place, expected=expected)
        found = [row for row in rows if row["label"] == (label or labels[0])]
    else:
        found = [row_at(folder)] if (folder / "config.json").exists() else collect_method(folder)
    found = sorted((row for row in found if row.is_finished), key=lambda row: row.place)
    if not found:
        expected = "the folder of a finished run, of a configuration's runs, or of a study (STUDY#LABEL)"
        raise invalid("runs", received=place, expected=expected)
    return found


def paired(first: Sequence[Row], second: Sequence[Row]) -> tuple[list[Row], list[Row]]:
    """Return the runs whose folds and repeats both sides have.

    Raises:
        InvalidInput: there are none.
    """
    places = {row.place for row in first} & {row.place for row in second}
    if not places:
        received = " and ".join(str([row.place for row in of]) for of in (first, second))
        raise invalid("runs", received=f"(fold, repeat) {received}", expected="a fold and repeat that both have")
    return [row for row in first if row.place in places], [row for row in second if row.place in places]


def differing(first: Mapping[str, Any], second: Mapping[str, Any]) -> list[list[str]]:
    """Return name and both values of each differing entry; "-" is missing."""
    names = sorted({*first, *second})
    return [
        [name, *(_shown(of.get(name)) for of in (first, second))]
        for name in names
        if first.get(name) != second.get(name)
    ]


def settings_table(first: Row, second: Row, names: Sequence[str]) -> Table:
    """Return the settings, and what is recorded of the machine, that differ."""
    rows = differing(first["configuration"], second["configuration"])
    rows += [[f"machine: {name}", *values] for name, *values in differing(first["environment"], second["environment"])]
    return Table("What differs", ["", *names], rows or [["nothing", "", ""]])


def figures_table(first: Sequence[Row], second: Sequence[Row], names: Sequence[str]) -> Table:
    """Return means over paired runs, with intervals of the difference.

    Raises:
        InvalidInput: the test classes differ.
    """
    left, right = Scores(first), Scores(second)
    rows = []
    for metric in (name for name in left.metrics if name in right.metrics):
        means = [of.estimate(metric).estimate for of in (left, right)]
        found = right.difference(left, metric)
        ends = found.ends(of_difference=True)
        difference = f"{round(100 * found.estimate, 2) + 0.0:+.2f}"  # no -0.00
        difference += f" {bracketed(*ends, found.kind)}" if ends else ""
        rows.append([f"{metric}, %", *(f"{100 * mean:.2f}" for mean in means), difference])
    for name in _COUNTS:
        values = [[row[name] for row in of if row.get(name) is not None] for of in (first, second)]
        if all(values):
            means = [float(np.mean(of)) for of in values]
            rows.append([name.replace("_", " "), *(f"{mean:,.0f}" for mean in means), f"{means[1] - means[0]:+,.0f}"])
    runs = f"means over {len(first)} runs" if len(first) > 1 else "one run each"
    return Table(f"Figures, {runs}", ["", *names, "difference"], rows)


def classes_table(first: Sequence[Row], second: Sequence[Row], names: Sequence[str]) -> Table:
    """Return the test classes, by their labels, whose MAP@R gains and loses most."""
    scored = [[row.scored() for row in of] for of in (first, second)]
    means = [np.mean([row.sums[_RANKED] / row.counts for row in of], axis=0) for of in scored]
    labels, gains = scored[0][0].labels, means[1] - means[0]
    order = np.argsort(-gains, kind="stable")
    shown = order if len(order) <= 2 * NUM_CLASSES else np.r_[order[:NUM_CLASSES], order[-NUM_CLASSES:]]
    rows = [
        [
            f"class {labels[place]}",
            *(f"{100 * of[place]:.1f}" for of in means),
            f"{100 * gains[place]:+.1f}",
        ]
        for place in shown.tolist()
    ]
    better, worse = int((gains > 0).sum()), int((gains < 0).sum())
    title = f"{_RANKED} by test class, %: {better} of {len(gains)} gain, {worse} lose"
    return Table(title, ["", *names, "difference"], rows)


def queries_table(first: Sequence[Row], second: Sequence[Row], names: Sequence[str], test: Examples | None) -> Table:
    """Return, for each query, in how many runs its nearest neighbour is right.

    The title counts the queries that do better on one side.

    Args:
        test: the test examples, whose paths name queries; None if unknown.
    """
    found = [[_right(row) for row in of] for of in (first, second)]
    rows = found[0][0][0]
    if any(not np.array_equal(each, rows) for of in found for each, _ in of):
        raise InvalidInput("The runs were tested on other queries, so that these cannot be compared one by one.")
    left, right = (np.sum([hits for _, hits in of], axis=0).astype(int) for of in found)
    paths = None if test is None else test.paths
    title = f"Nearest neighbour: {int((right > left).sum())} of {len(rows)} queries do better with {names[1]}, "
    values = [
        [str(paths[row]) if paths is not None else int(row), int(a), int(b)] for row, a, b in zip(rows, left, right)
    ]
    header = ["query", *names]
    return Table(f"{title}{int((right < left).sum())} with {names[0]}", header, (), values=[header, *values])


def write_pair(
    first: Sequence[Row], second: Sequence[Row], names: Sequence[str], tables: Sequence[Table], folder: pathlib.Path
) -> None:
    """Write the tables as Markdown, the validation curves, and a table of queries."""
    folder.mkdir(parents=True, exist_ok=True)
    write_text(folder / "comparison.md", "\n".join(table.as_markdown() for table in tables))
    curves = [Curve(name, *_curve(row)) for name, of in zip(names, (first, second)) for row in of]
    if any(len(curve.steps) for curve in curves):
        validation_curves(curves, folder / _CURVES)
    for table in tables:
        if table.values:
            write_text(folder / _QUERIES, table.as_csv())


def _curve(row: Row) -> tuple[np.ndarray, np.ndarray]:
    """Return steps and validation MAP@R `[evaluations]` of a run, recorded or not."""
    steps, values = row.curve()
    recorded = np.array(row["extras"].get("validation_curve") or np.empty((0, 2)))
    return (steps, values) if len(steps) else (recorded[:, 0], recorded[:, 1])


def _right(row: Row) -> tuple[np.ndarray, np.ndarray]:
    """Return the evaluated queries' rows, and whether the nearest neighbour is right `[queries]`."""
    result = evaluate_embeddings(row.test_embeddings(), row["dataset"])
    return result.query_rows, result.per_query[_COUNTED] > 0


def _shown(value: object) -> str:
    if isinstance(value, list):
        return textwrap.shorten(" ".join(map(str, value)), _WIDTH, placeholder=" ...")
    return "-" if value is None else f"{value:g}" if isinstance(value, float) else str(value)
