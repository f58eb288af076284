"""The demo: a network fine-tuned on emoji, searched among others.

Regenerates: nothing printed: what a memory and CCP add to a loss when the whole network is trained.
Command: python -m experiments.demo
Expected: MAP@R 24 of the untrained network, more with the loss, most with CCP.
Cost: 600 steps of .2 to .6 s for each of three runs, and evaluations: 12.5 minutes of processor time with AVX-512 and
    AMX, 27 with AVX2.
"""

from __future__ import annotations

import collections
import functools
import io
import pathlib
import re
from collections.abc import Mapping, Sequence
from typing import Any, Literal, NamedTuple

import numpy as np
from PIL import Image

from common.data import Dataset
from common.data.array_cache import cached_arrays
from common.errors import check_given, invalid
from common.files import write_atomically, write_text
from common.pages.markup import plural, render
from common.retrieval.metrics import TABLE_METRICS
from experiments.plans.study import Cell, FinishedCells, Study, StudyOptions, finished_rows
from experiments.reports import Table
from experiments.reports.scores import Scores
from experiments.rows.rows import CLOSED_FORM, UNTRAINED as BEFORE, Row
from experiments.runs.evaluation import untrained_embeddings
from experiments.site.drawings import READABLE, Drawings
from experiments.site.drawn_run import neighbors_of

DATASET, LOSS = "emoji", "ms"
UNTRAINED, WHITENED = "untrained", "untrained + whitening"
_HEADER = ("trained by", *TABLE_METRICS, "minus loss", "95 % interval", "runs differ by")
# Standard deviation of MAP@R minus that of `ms`, in points, over the recorded runs of `docs/results/rows/demo_*`.
SPREAD = {"ms + memory": 0.7, "ms + CCP": 0.4}
NUM_QUERIES, NUM_FOUND = 12, 5  # on the page
_PICTURED = 5  # queries of the picture, with one emoji fewer each
_MIN_CONTRAST = 25  # standard deviation of a query's pixels
_MIN_DISTANCE = 40  # root mean square, of a query's pixels from those of each other emoji
_UNSAID = re.compile(
    r"U\+\w+|,|ZERO WIDTH JOINER|VARIATION SELECTOR-16"
    r"|\b(?:(?:FE)?MALE|(?:WO)?M[AE]NS?|BOY|GIRL|PERSON|PRINCE(?:SS)?|SIGN)\b"
)  # what the names of twins differ by
_GREEN, _RED, _INK = "#0b6b3a", "#a3271b", "#1c2530"
_SCHEDULE = {"max_steps": 600, "steps_per_evaluation": 100, "fold_batch_norm": True}


class Demo(Study):
    """A pair loss alone, with memory and with CCP, on the first fold."""

    def __init__(self, options: StudyOptions):
        if options.dataset != DATASET:
            raise invalid("--dataset", received=options.dataset, expected=f"{DATASET}, which the page shows")
        loss = options.only_loss(LOSS)
        self.loss = loss
        self.proxies = f"{loss} + CCP"
        self.rows = {loss: f"{loss}+gap", f"{loss} + memory": f"{loss}+xbm+gap", self.proxies: f"{loss}+ccp+gap"}
        settings = {} if options.budget == "smoke" else _SCHEDULE
        self.groups: dict[str, list[Cell]] = {}
        for label, method in self.rows.items():
            config = options.of_method(method, settings=settings)
            self.groups[label] = options.cells(method, config, one_split=True)
        self.title = "Search among emoji that training has not seen"
        several = options.repeats > 1
        covered = "other emoji and other runs. *: it excludes 0" if several else "other emoji, not for other runs"
        is_recorded = loss == LOSS and options.budget == "demo" and not (several or options.overrides)
        self.spread = SPREAD if is_recorded else {}
        runs = "these runs" if several else "recorded runs" if is_recorded else "runs, which --repeats=3 makes"
        self.notes = (
            "In per cent. P@1: the nearest drawing is the same emoji. MAP@R: all its designs come first.",
            f"minus loss: MAP@R minus that of {loss}. Its interval is for {covered}.",
            f"runs differ by: its standard deviation over {runs}.",
        )

    def render(self, finished: FinishedCells, folder: pathlib.Path, name: str) -> str:
        """Write the table, and the page and picture once every row has a run."""
        runs = {label: of_row for label, cells in self.groups.items() if (of_row := finished_rows(cells, finished))}
        table = Table(self.title, _HEADER, figures_of(runs, self.loss, self.spread))
        Table(table.title, table.header, table.rows, self.notes).write(folder, name)
        text = [table.as_text().rstrip(), *self.notes]
        if {self.loss, self.proxies} <= runs.keys():
            text = self._page(runs, finished, folder, table) + text
        return "\n".join(text)

    def _page(
        self, runs: Mapping[str, Sequence[Row]], finished: FinishedCells, folder: pathlib.Path, table: Table
    ) -> list[str]:
        """Write the page and the picture; return the comparison and lines that name them."""
        dataset = check_given("dataset", finished.dataset)
        cell, method = self.groups[self.loss][0], runs[self.loss][0].folder.parent.name
        untrained = functools.partial(untrained_embeddings, cell.config, dataset, finished.cache_dir)
        embeddings = {
            UNTRAINED: cached_arrays(folder, f"untrained-{method}", ("queries",), untrained)["queries"],
            **{label: runs[label][0].test_embeddings()["queries"] for label in (self.loss, self.proxies)},
        }
        images, labels = check_given("images", dataset.test.inputs), dataset.test.labels
        found = [found_by(label, of_network, labels, NUM_FOUND) for label, of_network in embeddings.items()]
        change = found[2].num_right - found[1].num_right
        comparison = comparison_of(self.proxies, self.loss, change)
        fair = np.flatnonzero(fair_queries(images, [dataset.class_names[label] for label in labels]))
        queries = fair[stratified(change[fair], NUM_QUERIES)]
        columns = [of_network.of(queries) for of_network in found]
        values = {"title": self.title, "heads": table.header, "rows": table.rows, "notes": (comparison, *self.notes)}
        page, picture = write_page(folder, dataset, queries, columns, values), folder / "found.png"
        pictured = fair[stratified(change[fair], _PICTURED)]
        draw_picture(picture, dataset, pictured, [of_network.of(pictured) for of_network in found])
        return [f"Picture: {picture}", f"Page: {page}", comparison]


def figures_of(runs: Mapping[str, Sequence[Row]], baseline: str, spread: Mapping[str, float]) -> list[tuple[str, ...]]:
    """Return the table's lines: the untrained network, also whitened, then each row."""
    first = next(iter(runs.values()))[0]
    without_training = {UNTRAINED: first[BEFORE], WHITENED: first["extras"].get(CLOSED_FORM, {}).get("whitening")}
    lines = [
        (label, *(_percent(figures[metric]) for metric in TABLE_METRICS), "", "", "")
        for label, figures in without_training.items()
        if figures
    ]
    scores = {label: Scores(of_row) for label, of_row in runs.items()}
    for label, of_row in scores.items():
        means = [_percent(of_row.estimate(metric).estimate) for metric in TABLE_METRICS]
        compared = label != baseline and baseline in scores and of_row.places == scores[baseline].places
        difference = _difference(of_row, scores[baseline], spread.get(label)) if compared else ("", "", "")
        lines.append((label, *means, *difference))
    return lines


def _difference(scores: Scores, baseline: Scores, spread: float | None) -> tuple[str, str, str]:
    """Return MAP@R minus the baseline's, its interval, and how far runs differ.

    One run has no star, whatever its interval says of other emoji, and the spread of recorded runs.
    """
    bounds = scores.difference(baseline, "MAP@R")
    low, high = bounds.ends(of_difference=True)
    star, differ = "", "not known" if spread is None else f"{spread:.1f}"
    if len(scores.rows) > 1:
        star = "*" if bounds.excludes_zero else ""
        pairs = zip(scores.rows, baseline.rows, strict=True)
        gaps = [row["test"]["MAP@R"] - of["test"]["MAP@R"] for row, of in pairs]
        differ = f"{100 * np.std(gaps, ddof=1):.1f}"
    return f"{100 * bounds.estimate:+.1f}{star}", f"[{100 * low:.1f}, {100 * high:.1f}]", differ


def _percent(fraction: float) -> str:
    return f"{100 * fraction:.1f}"


class Found(NamedTuple):
    """The nearest emoji of drawings, by one network."""

    title: str  # of the network
    places: np.ndarray  # test images `[queries, found]`, nearest first
    is_right: np.ndarray  # the query's emoji, `[queries, found]`

    @property
    def num_right(self) -> np.ndarray:
        """The number of right drawings of each query."""
        return self.is_right.sum(axis=1)

    def of(self, queries: np.ndarray) -> Found:
        """Return what is found for some queries."""
        return Found(self.title, self.places[queries], self.is_right[queries])


def found_by(title: str, embeddings: np.ndarray, labels: np.ndarray, count: int) -> Found:
    """Search embeddings `[images, dim]` for each of them, without itself."""
    places = neighbors_of(embeddings, None, np.arange(len(labels)), count)
    return Found(title, places, labels[places] == labels[:, None])


def comparison_of(ours: str, other: str, change: np.ndarray) -> str:
    """Compare what two networks find, in one sentence.

    Args:
        ours: name of the first network.
        other: name of the second.
        change: right drawings of the first minus those of the second, `[queries]`.
    """
    more, fewer, same = (f"{100 * np.mean(each):.0f} %" for each in (change > 0, change < 0, change == 0))
    return (
        f"{ours} finds more than {other} for {more} of all {len(change):,} drawings, "
        f"fewer for {fewer}, as many for {same}."
    )


def fair_queries(images: np.ndarray, names: Sequence[str]) -> np.ndarray:
    """Mark the drawings that a reader can judge as queries.

    The others are nearly white, hardly differ from a drawing of another emoji, or have a twin of another gender.

    Args:
        images: `[drawings, height, width, 3]` uint8.
        names: the class of each drawing, in words.

    Returns:
        A mask `[drawings]`.
    """
    classes, labels = np.unique(names, return_inverse=True)
    neutral = [" ".join(_UNSAID.sub("", name).split()) for name in classes]
    twins = collections.Counter(neutral)
    has_twin = np.array([twins[words] > 1 for words in neutral])[labels]
    small = images[:, ::4, ::4].reshape(len(images), -1).astype(np.float32)
    norms = (small**2).sum(axis=1)
    squares = (norms[:, None] + norms - 2 * small @ small.T) / small.shape[1]
    squares[labels[:, None] == labels] = np.inf
    is_alone = squares.min(axis=1) >= _MIN_DISTANCE**2
    return is_alone & ~has_twin & (images.std(axis=(1, 2, 3)) >= _MIN_CONTRAST)


def stratified(values: np.ndarray, count: int) -> np.ndarray:
    """Return places spread evenly over their values, highest first; ties in random order."""
    shuffled = np.random.default_rng(1).permutation(len(values))
    order = shuffled[np.argsort(-values[shuffled], kind="stable")]
    return order[((np.arange(count) + 0.5) * len(values) / count).astype(int)]


def write_page(
    folder: pathlib.Path, dataset: Dataset, queries: np.ndarray, columns: Sequence[Found], table: Mapping[str, Any]
) -> pathlib.Path:
    """Write `index.html` with its images; return its path."""
    images, labels = check_given("images", dataset.test.inputs), dataset.test.labels
    drawings = Drawings(folder)

    def tile(place: int) -> dict[str, Any]:
        return {"image": drawings.image(images[place]), "name": _name(dataset, labels[place])}

    lines = []
    for row, query in enumerate(queries):
        strips = [
            {
                "title": column.title,
                "num_right": int(column.is_right[row].sum()),
                "tiles": [
                    {**tile(place), "is_right": bool(right)}
                    for place, right in zip(column.places[row], column.is_right[row])
                ],
            }
            for column in columns
        ]
        caption = plural(int((labels == labels[query]).sum()) - 1, "other design")
        lines.append({"query": tile(query), "caption": caption, "strips": strips})
    path = folder / "index.html"
    write_text(path, render("experiments.site", "demo.html", generator="experiments.demo", lines=lines, **table))
    path.chmod(READABLE)
    return path


def draw_picture(path: pathlib.Path, dataset: Dataset, queries: np.ndarray, columns: Sequence[Found]) -> None:
    """Draw queries and what each network finds (atomic PNG of 256 colours)."""
    from matplotlib.figure import Figure
    from matplotlib.patches import Rectangle

    images = check_given("images", dataset.test.inputs)
    count = columns[0].places.shape[1] - 1
    gap = 0.35  # in tiles, between networks
    width, height = 1 + len(columns) * (gap + count), len(queries) + 0.5
    figure = Figure(figsize=(0.72 * width, 0.72 * height), dpi=100)
    axes = figure.add_axes((0, 0, 1, 1))
    axes.set(xlim=(0, width), ylim=(height, 0))
    axes.axis("off")

    def draw(place: int, left: float, row: int, color: str, style: Literal["-", ":"] = "-") -> None:
        top = row + 0.5
        axes.imshow(images[place], extent=(left + 0.08, left + 0.92, top + 0.92, top + 0.08), aspect="auto", zorder=1)
        box = Rectangle((left + 0.04, top + 0.04), 0.92, 0.92, fill=False, edgecolor=color, linewidth=1.6, zorder=2)
        box.set_linestyle(style)
        axes.add_patch(box)

    axes.text(0.5, 0.42, "query", ha="center", fontsize=10, color=_INK)
    for row, query in enumerate(queries):
        draw(query, 0, row, _INK)
    for index, column in enumerate(columns):
        start = 1 + gap + index * (gap + count)
        axes.text(start + 0.04, 0.42, column.title, fontsize=10, color=_INK)
        for row in range(len(queries)):
            for place in range(count):
                right = column.is_right[row, place]
                draw(column.places[row, place], start + place, row, _GREEN if right else _RED, "-" if right else ":")
    drawn = io.BytesIO()
    figure.savefig(drawn, format="png", facecolor="white")
    with Image.open(drawn) as image:
        reduced = image.convert("RGB").quantize(256)
    write_atomically(path, lambda file: reduced.save(file, "PNG", optimize=True))
    path.chmod(READABLE)


def _name(dataset: Dataset, label: int) -> str:
    """Return a class's name without its code points: `"runner"`."""
    words = [part.split(" ", 1)[-1] for part in dataset.class_names[label].split(", ")]
    return ", ".join(word for word in words if "SELECTOR" not in word and "JOINER" not in word).lower()
