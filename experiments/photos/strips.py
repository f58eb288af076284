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
from experiments.site.markup import Markup, joined, tag
from experiments.site.pages import page

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
    lines = [tag("ul", *map(_tile, strip), class_="strip photos") for strip in strips]
    text = page(title, tag("p", shown_text(summary)), *lines, is_index=True, generator="experiments.search")
    write_text(path, text)


def _tile(tile: Tile) -> Markup:
    thumbnail = thumbnail_of(tile.path)
    name = shown_path(tile.path)
    if thumbnail.startswith("data:"):
        shown = tag("img", src=thumbnail, alt=name, title=name, loading="lazy")
    else:
        shown = tag("span", thumbnail, class_="nothing", title=name)
    link = tag("a", shown, class_="tile", href=pathlib.Path(tile.path).absolute().as_uri())
    word = tag("span", _WORDS[tile.role], class_="mark-word") if tile.role else None
    parts = [part for part in (word, tile.caption, shown_text(tile.label or pathlib.Path(tile.path).name)) if part]
    return tag("li", link, joined(parts, Markup("<br>")), class_=f"is-{tile.role}" if tile.role else None)


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
