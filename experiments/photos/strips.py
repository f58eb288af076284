"""A page of photo strips: a query with its results, or near-duplicates."""

from __future__ import annotations

import base64
import io
import pathlib
from collections.abc import Sequence
from typing import NamedTuple

from PIL import Image

from common.data.regular_files import contents_of
from common.files import write_text
from experiments.photos.shown import shown_path, shown_text
from experiments.site.markup import render

_PIXELS = 160  # of the longer side of a thumbnail


class Tile(NamedTuple):
    """One photo of a strip.

    Attributes:
        path: of the image file.
        caption: below it, such as a similarity.
        label: its class; the name of the file is shown where it is "".
        role: "query", "right", "wrong" (of the query's class or not), or "" for neither.
    """

    path: str
    caption: str
    label: str = ""
    role: str = ""


_WORDS = {"query": "query", "right": "✓ same class", "wrong": "✗ other class"}


def write_strips(path: str, title: str, summary: str, strips: Sequence[Sequence[Tile]]) -> None:
    """Write a self-contained HTML file whose photos link to their files.

    Args:
        path: of the file.
        title: of the page.
        summary: a sentence above the strips.
        strips: photos that belong together, in order.
    """
    shown = [[_values(tile) for tile in strip] for strip in strips]
    values = {"title": title, "summary": shown_text(summary), "strips": shown}
    write_text(path, render("strips.html", generator="experiments.search", **values))


def _values(tile: Tile) -> dict[str, str]:
    return {
        "role": tile.role,
        "address": pathlib.Path(tile.path).absolute().as_uri(),
        "thumbnail": thumbnail_of(tile.path),
        "name": shown_path(tile.path),
        "word": _WORDS.get(tile.role, ""),
        "caption": tile.caption,
        "label": shown_text(tile.label or pathlib.Path(tile.path).name),
    }


def thumbnail_of(path: str) -> str:
    """Return a small copy as a data address, or explain the failure."""
    from common.data.image_files import decode_rgb

    contents = contents_of(path)
    image = contents if isinstance(contents, str) else decode_rgb(contents)
    if isinstance(image, str):
        return shown_text(image)
    image.thumbnail((_PIXELS, _PIXELS), Image.Resampling.LANCZOS)
    file = io.BytesIO()
    image.save(file, "JPEG", quality=85)
    return f"data:image/jpeg;base64,{base64.b64encode(file.getvalue()).decode()}"
