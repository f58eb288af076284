"""Files of a protocol's report: tables, curves, recall, features, adapted sampling distributions."""

from __future__ import annotations

import pathlib
from collections.abc import Callable, Mapping, Sequence

import numpy as np

from common.files import DamagedFile, read_arrays
from common.retrieval.metrics import TABLE_METRICS
from common.training.methods import CONCATENATED
from experiments import reports
from experiments.parts.datasets import traits_of
from experiments.reports.plots import picture
from experiments.rows.rows import Row, evaluate_embeddings
from milbich_dml.features import DISCRIMINATIVE, FEATURES, GROUPS
from milbich_dml.pads import SAMPLING

_SHAPES = ("rho", "pi_intra", "pi_inter")
_NOTE = (
    "Means over the finished runs, of their test embeddings: each feature is a slice, and `concatenated` is all of "
    "them side by side; `first n` is the prefix of n components. P@1 and MAP@R in percent."
)
_RECALL = "Means over the finished runs, single models, in percent."


def print_report(text: str, folder: pathlib.Path, details: bool, pattern: str = "*.md") -> None:
    """Print a report's text; before it, with `details`, its Markdown files."""
    for path in sorted(folder.glob(pattern)) if details else ():
        print(path.read_text(encoding="utf-8"))
    print(text)


def write_parts(runs: Mapping[str, Sequence[Row]], folder: pathlib.Path) -> str:
    """Write `features.md`, `.csv` and `sampling.png`, if any; return the terminal's text."""
    return "\n".join(part for part in (_features(runs, folder), _sampling(runs, folder)) if part)


def recall_of(row: Row, dataset: str) -> dict[str, float]:
    """Return a finished run's R@k for a data set's tables, as fractions.

    If the run did not measure them, compute them from its test embeddings, which may be missing or a `DamagedFile`.
    """
    names, found = [f"R@{k}" for k in traits_of(dataset).recall_at], row["test"]
    if not found.keys() >= {*names}:
        found = evaluate_embeddings(row.test_embeddings(), dataset).as_dict()
    return {name: found[name] for name in names}


def write_recall(
    runs: Mapping[str, Sequence[Row]],
    dataset: str,
    folder: pathlib.Path,
    *,
    name: str = "report",
    published: Mapping[str, Callable[[str], reports.PublishedValue | None]] = {},
    shown: bool = True,
) -> str:
    """Write `<name>_recall.md` and `.csv`; return the terminal's text, with the table if `shown`.

    `published` gives, for each method, the printed cell of a metric, such as `R@10`.
    """
    rows, hanging, left_out, metrics = [], [], [], [f"R@{k}" for k in traits_of(dataset).recall_at]
    for method, of_method in runs.items():
        found = []
        for row in of_method:
            try:
                found.append(recall_of(row, dataset))
            except DamagedFile as error:
                left_out.append(f"{method}: a run is left out. {error}")
        if not found:
            continue
        means = [f"{100 * np.mean([each[metric] for each in found]):.2f}" for metric in metrics]
        rows.append([method, str(len(found)), *means])
        printed = {metric: published[method](metric) for metric in metrics if method in published}
        cells = {metric: cell for metric, cell in printed.items() if cell and cell.value is not None}
        if cells.keys() - {"R@1"}:
            (place, *_) = cells.values()
            hanging.append(len(rows))
            values = [f"{cells[metric].value:.2f}" if metric in cells else "" for metric in metrics]
            rows.append([f"  printed: table {place.table}, {place.method}", "", *values])
    if not rows:
        return ""
    title, notes = f"Recall on the test set of {dataset}", [_RECALL, *left_out]
    header = ("method", "runs", *metrics)
    reports.Table(title, header, rows, notes, hanging).write(folder, f"{name}_recall")
    table = reports.Table(title, header, rows, [_RECALL], hanging).as_text() if shown else ""
    named = f"{metrics[0]} to {metrics[-1]}: {folder / name}_recall.md"
    return "\n".join([*([table] if table else []), *(f"warning: {each}" for each in left_out), named])


def _features(runs: Mapping[str, Sequence[Row]], folder: pathlib.Path) -> str:
    found = {method: [of for row in done if (of := row["extras"].get("features"))] for method, done in runs.items()}
    rows = [[f"{method}, {line[0]}", *line[1:]] for method, of in found.items() for line in feature_lines(of)]
    if not rows:
        return ""
    header = ("feature", "runs", "dim", *TABLE_METRICS, *_SHAPES)
    notes = [_NOTE, *(note for method, of in found.items() if (note := group_note(method, of)))]
    reports.Table("Features, each on its own", header, rows, notes).write(folder, "features")
    return f"Features, each on its own: {folder / 'features.md'}"


def group_note(method: str, found: Sequence[Mapping]) -> str:
    """Format the mean number of classes per group; empty without groups.

    Reference: Milbich's dissertation, figure 3.4.
    """
    groups = [each[GROUPS] for each in found if GROUPS in each]
    if not groups:
        return ""
    mean = {name: np.mean([each[name] for each in groups]) for name in ("groups", "classes_per_group")}
    return f"{method}: images of {mean['groups']:.0f} groups, each of {mean['classes_per_group']:.1f} classes (means)."


def feature_lines(found: Sequence[Mapping]) -> list[list[str]]:
    """List each feature's name, number of runs, size, and means."""
    lines, order = [], (DISCRIMINATIVE, *FEATURES, CONCATENATED)  # prefixes are by length; JSON has sorted by name
    features = found[0] if found else {}
    for name in sorted(features, key=lambda name: order.index(name) if name in order else features[name]["dim"]):
        figures = [each[name] for each in found]
        scores = [
            f"{100 * np.mean([of[metric] for of in figures]):.2f}" if all(metric in of for of in figures) else "-"
            for metric in TABLE_METRICS
        ]
        shapes = [f"{np.mean([of.get(shape, np.nan) for of in figures]):.3f}" for shape in _SHAPES]
        lines.append([name, str(len(found)), str(figures[0]["dim"]), *scores, *shapes])
    return lines


def _sampling(runs: Mapping[str, Sequence[Row]], folder: pathlib.Path) -> str:
    means = {}
    for method, done in runs.items():
        records = [read_arrays(row.folder / SAMPLING) for row in done if (row.folder / SAMPLING).exists()]
        if decided := [record for record in records if len(record["steps"])]:
            means[f"{method} (mean of {len(decided)} runs)"] = mean_sampling(decided)
    if not means:
        return ""
    path = folder / "sampling.png"
    draw_sampling(means, path)
    return f"Sampling distribution over steps: {path}"


def mean_sampling(records: Sequence[Mapping[str, np.ndarray]]) -> dict[str, np.ndarray]:
    """Average runs' distributions of distances; stopped runs keep their last one.

    There is at least one, with the same bins and the same steps between decisions: `steps` of the decisions, increasing
    `[decisions]`, `edges` of the bins `[bins + 1]`, and `probabilities` with rows that add up to one `[decisions,
    bins]`.
    """
    longest = max(records, key=lambda each: len(each["steps"]))
    missing = [len(longest["steps"]) - len(each["steps"]) for each in records]
    filled = [np.pad(each["probabilities"], ((0, count), (0, 0)), "edge") for each, count in zip(records, missing)]
    return {**longest, "probabilities": np.mean(filled, axis=0)}


def draw_sampling(records: Mapping[str, Mapping[str, np.ndarray]], path: pathlib.Path) -> None:
    """Draw a panel per record of `mean_sampling` (steps, distances, probability), by its title."""
    with picture(path, 7, 0.8 + 2.9 * len(records), rows=len(records), is_framed=True) as (figure, panels):
        for axes, (name, record) in zip(panels, records.items()):
            ends = [0, *record["steps"]]  # a distribution is drawn from until the step of its decision
            drawn = axes.pcolormesh(ends, record["edges"], record["probabilities"].T, cmap="viridis", vmin=0)
            figure.colorbar(drawn, ax=axes, label="probability of the bin")
            axes.set(xlabel="training step", ylabel="distance of the negative")
            axes.set_title(name, fontsize="medium")
        figure.suptitle("Distribution that negatives are drawn by", fontsize="medium")
