"""A map made of the photos of an index: similar photos lie together."""

from __future__ import annotations

import math
import pathlib

import numpy as np
from PIL import Image

from common.files import write_text
from common.pages.markup import render
from common.progress import progress_bar, write_notice
from photo_search.index import EmbeddingIndex
from photo_search.index.similarity import Metric
from photo_search.photos.shown import data_address, shown_path, shown_text, small_picture

MOST_PHOTOS = 10_000
_NUM_NEIGHBORS = 12
_TILES_PER_SIDE = 32  # of a sheet
_TILE_PIXELS = ((2_500, 64), (MOST_PHOTOS, 40))  # for up to so many photos
_COMPONENTS = 50  # that t-SNE compares


def write_map(path: str, index: EmbeddingIndex, name: str) -> int:
    """Write a self-contained HTML file; return the number of photos on the map.

    Of more than `MOST_PHOTOS`, evenly spaced ones are shown. A photo's file opens from where it lies.
    """
    rows = np.unique(np.linspace(0, len(index) - 1, min(len(index), MOST_PHOTOS)).astype(int))
    pixels = next(pixels for most, pixels in _TILE_PIXELS if len(rows) <= most)
    sheets, sizes = _sheets([index.ids[row] for row in rows], pixels)
    embeddings = np.asarray(index.embeddings[rows], np.float32)
    if len(rows) > 2 * _COMPONENTS:
        write_notice(f"Arranging {len(rows):,} photos by t-SNE: about a minute for 5,000.")
    places = arranged(embeddings)
    labels = [""] * len(rows) if index.labels is None else [shown_text(index.labels[row]) for row in rows]
    classes = sorted(set(labels))
    number = {label: position for position, label in enumerate(classes)}
    data = {
        "pixels": pixels,
        "perSide": _TILES_PER_SIDE,
        "sheets": sheets,
        "sizes": sizes,
        "places": np.round(places, 4).tolist(),
        "classes": classes,
        "labels": [number[label] for label in labels],
        "names": [shown_path(index.ids[row]) for row in rows],
        "addresses": [pathlib.Path(index.ids[row]).absolute().as_uri() for row in rows],
        "neighbors": _neighbors(embeddings, index.metric),
    }
    title = shown_text(f"Map of {name}")
    write_text(
        path,
        render(
            "photo_search", "map.html", generator="photo_search.search", title=title, num_photos=len(index), data=data
        ),
    )
    return len(rows)


def arranged(embeddings: np.ndarray) -> np.ndarray:
    """Arrange embeddings in the unit square by t-SNE of their principal components.

    `[photos, dim]` become `[photos, 2]`, in [0, 1]. Fewer than four photos lie on a diagonal.
    """
    from sklearn.decomposition import PCA

    from common.diagnostics.plane import FEWEST_POINTS, plane

    if len(embeddings) < FEWEST_POINTS:
        return np.repeat(np.linspace(0, 1, len(embeddings))[:, None], 2, axis=1)
    components = min(_COMPONENTS, *embeddings.shape)
    return plane(PCA(components, random_state=0).fit_transform(embeddings))


def _neighbors(embeddings: np.ndarray, metric: Metric) -> list[list[int]]:
    """Return the positions of each photo's nearest others on the map."""
    shown = EmbeddingIndex.build(embeddings, [str(row) for row in range(len(embeddings))], metric=metric)
    count = min(_NUM_NEIGHBORS, len(embeddings) - 1)
    return shown.neighbors_of(np.arange(len(embeddings)), count).rows.tolist() if count else [[]]


def _sheets(paths: list[str], pixels: int) -> tuple[list[str], list[list[int]]]:
    """Draw sheets of small copies: their data addresses, and the copies' sizes (zeros: unreadable)."""
    per_sheet = _TILES_PER_SIDE**2
    sheets, sizes = [], []
    with progress_bar(total=len(paths), desc="small copies", unit="image") as bar:
        for start in range(0, len(paths), per_sheet):
            part = paths[start : start + per_sheet]
            height = math.ceil(len(part) / _TILES_PER_SIDE)
            sheet = Image.new("RGB", (pixels * _TILES_PER_SIDE, pixels * height), "#888")
            for position, path in enumerate(part):
                copy = small_picture(path, pixels)
                if not isinstance(copy, str):
                    down, right = divmod(position, _TILES_PER_SIDE)
                    sheet.paste(copy, (right * pixels, down * pixels))
                sizes.append([0, 0] if isinstance(copy, str) else list(copy.size))
                bar.update(1)
            sheets.append(data_address(sheet, quality=80))
    return sheets, sizes
