"""The demo's page and picture: what each network finds for the same emoji."""

from __future__ import annotations

import io
import pathlib
from collections.abc import Mapping, Sequence
from typing import Any, Literal, NamedTuple

import numpy as np
from PIL import Image

from common.data import Dataset
from common.errors import check_given
from common.files import write_atomically, write_text
from experiments.site.drawings import READABLE, Drawings
from experiments.site.drawn_run import neighbors_of
from experiments.site.markup import plural, render

NUM_QUERIES, NUM_FOUND = 12, 5  # on the page
_PICTURED = 5  # queries of the picture, with one emoji fewer each
_GENERATOR = "experiments.demo"
_GREEN, _RED, _INK = "#0b6b3a", "#a3271b", "#1c2530"


class Found(NamedTuple):
    """The nearest emoji of some queries, by one network."""

    title: str  # of the network, with its figure
    places: np.ndarray  # test images `[queries, found]`, nearest first
    is_right: np.ndarray  # the query's emoji, `[queries, found]`


def found_by(title: str, embeddings: np.ndarray, labels: np.ndarray, queries: np.ndarray, count: int) -> Found:
    """Search embeddings `[images, dim]` for queries, without the queries themselves."""
    places = neighbors_of(embeddings, None, queries, count)
    return Found(title, places, labels[places] == labels[queries][:, None])


def write_page(
    folder: pathlib.Path,
    dataset: Dataset,
    queries: np.ndarray,
    columns: Sequence[Found],
    table: Mapping[str, Any],
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
    write_text(path, render("demo.html", generator=_GENERATOR, lines=lines, **table))
    path.chmod(READABLE)
    return path


def draw_picture(path: pathlib.Path, dataset: Dataset, queries: np.ndarray, columns: Sequence[Found]) -> None:
    """Draw the first queries and what each network finds (atomic PNG of 256 colours)."""
    from matplotlib.figure import Figure
    from matplotlib.patches import Rectangle

    images = check_given("images", dataset.test.inputs)
    queries, count = queries[:_PICTURED], columns[0].places.shape[1] - 1
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
