"""Tables on the terminal, CSV files and pages of photo strips."""

from __future__ import annotations

import base64
import contextlib
import csv
import io
import math
import os
import pathlib
from collections.abc import Sequence
from typing import NamedTuple

from PIL import Image

from common.data.image_formats import Reading, as_read, open_image
from common.data.regular_files import contents_of
from common.files import write_text
from common.pages.markup import render

_PIXELS = 240  # of the longer side of a thumbnail
_WORDS = {"query": "query", "right": "✓ same class", "wrong": "✗ other class"}


def shown_text(text: str) -> str:
    """Remove undisplayable characters, such as line breaks and non-UTF-8 bytes."""
    return "".join(letter if letter.isprintable() else repr(letter)[1:-1] for letter in text)


def shown_path(path: str) -> str:
    """Shorten a path below the working directory to a relative one."""
    inside = os.getcwd().rstrip(os.sep) + os.sep
    return shown_text(path[len(inside) :] if path.startswith(inside) else path)


def shown_similarity(similarity: float) -> str:
    """Format a similarity with four decimals; below 1 never shows as 1."""
    return shown_threshold(similarity) if 0.9999 < similarity < 1 else f"{similarity:.4f}"


def shown_threshold(threshold: float) -> str:
    """Format a threshold with four decimals, rounded down to stay reachable."""
    return f"{math.floor(round(1e4 * threshold, 8)) / 1e4:.4f}"


def aligned(header: Sequence[str], rows: Sequence[Sequence[str | int | float]]) -> str:
    """Align rows in columns of equal width, except the last; similarities are floats."""
    lines = [list(header), *([_cell(value) for value in row] for row in rows)]
    widths = [max(len(line[column]) for line in lines) for column in range(len(header) - 1)]
    return "\n".join(
        "  ".join([*(cell.ljust(width) for cell, width in zip(line, widths)), line[-1]]).rstrip() for line in lines
    )


def _cell(value: str | float) -> str:
    if isinstance(value, float):
        return shown_similarity(value)
    return shown_path(value) if isinstance(value, str) else str(value)


def write_csv(path: str, header: Sequence[str], rows: Sequence[Sequence[object]]) -> None:
    """Write a comma-separated file, atomically; no text is a spreadsheet's formula."""
    shown = [[_no_formula(shown_text(cell)) if isinstance(cell, str) else cell for cell in row] for row in rows]
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows([header, *shown])
    write_text(path, text.getvalue())


def _no_formula(text: str) -> str:
    """Put an apostrophe before a text that a spreadsheet would compute; numbers stay."""
    with contextlib.suppress(ValueError):
        float(text)
        return text
    return f"'{text}" if text.lstrip().startswith(("=", "+", "-", "@")) else text


class Tile(NamedTuple):
    """One photo of a strip."""

    path: str
    caption: str  # below it, such as a similarity
    label: str = ""  # its class; the name of the file is shown where it is ""
    role: str = ""  # "query", "right", "wrong" (of the query's class or not), or "" for neither


def write_strips(path: str, title: str, summary: str, strips: Sequence[Sequence[Tile]]) -> None:
    """Write a self-contained HTML file whose photos link to their files."""
    shown = [[_values(tile) for tile in strip] for strip in strips]
    values = {"title": shown_text(title), "summary": shown_text(summary), "strips": shown}
    write_text(path, render("photo_search", "strips.html", generator="photo_search.search", **values))


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


def thumbnail_of(path: str, pixels: int = _PIXELS) -> str:
    """Return a small copy as a data address, or explain the failure."""
    image = small_picture(path, pixels)
    return shown_text(image) if isinstance(image, str) else data_address(image)


def data_address(image: Image.Image, quality: int = 85) -> str:
    """Return a picture as a data address of a JPEG file."""
    return f"data:image/jpeg;base64,{base64.b64encode(jpeg_of(image, quality)).decode()}"


def jpeg_of(image: Image.Image, quality: int = 85) -> bytes:
    """Return a picture as a JPEG file without metadata."""
    file = io.BytesIO()
    image.save(file, "JPEG", quality=quality)
    return file.getvalue()


def picture_size(path: str) -> tuple[int, int] | None:
    """Return a photo's width and height in pixels; None if unreadable."""
    contents = contents_of(path)
    if isinstance(contents, str):
        return None
    try:
        with open_image(contents) as image:
            return image.size
    except Exception:  # noqa: BLE001 (Pillow raises what it likes about damaged files)
        return None


def small_picture(path: str, pixels: int, most_pixels: float = math.inf) -> Image.Image | str:
    """Return a small copy of a photo, or a phrase on why there is none.

    Args:
        path: of its file.
        pixels: most of the longer side.
        most_pixels: of the file's picture; larger ones are not decoded.
    """
    contents = contents_of(path)
    if isinstance(contents, str):
        return contents
    try:
        with open_image(contents) as image:
            if math.prod(image.size) > most_pixels:
                return f"the picture is larger than {most_pixels / 1e6:g} megapixels"
            image.draft(None, (pixels, pixels))  # of JPEG files, pixels that are not needed are not computed
            small = as_read(image, Reading.SHOWN)
    except Exception:  # noqa: BLE001 (Pillow raises any exception on damaged files)
        return "this is no complete picture"
    small.thumbnail((pixels, pixels), Image.Resampling.LANCZOS)
    return small
