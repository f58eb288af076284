"""Near-duplicates in an index, at a threshold given or calibrated on labelled pairs."""

from __future__ import annotations

import os

import numpy as np

from common.data import read_table, spellings
from common.errors import InvalidInput, invalid
from common.pages.markup import plural
from photo_search.index import CalibratedThreshold, DuplicatePairs, EmbeddingIndex, calibrate_threshold
from photo_search.photos.shown import Tile, shown_similarity, shown_threshold, write_strips

HEADER = ("group", "similarity", "path", "nearest")
_PAIR_COLUMNS = ("first", "second", "same")
_YES, _NO = ("1", "true", "yes", "same"), ("0", "false", "no", "different")


def read_pairs(path: str, index: EmbeddingIndex) -> tuple[np.ndarray, np.ndarray]:
    """Read labelled pairs: similarities in the index and equality, each `[pairs]`.

    Args:
        path: a table (see `read_table`) with the columns `first`, `second` (paths, relative to the file's folder or
            absolute) and `same` (1 or 0, true or false, yes or no).
    """
    if not os.path.isfile(path):
        raise invalid("--pairs", received=path, expected=f"a CSV file with the columns {', '.join(_PAIR_COLUMNS)}")
    row_of = {name: row for row, name in enumerate(index.ids)}
    folder = os.path.dirname(os.path.abspath(path))
    rows, same = [], []
    places, columns = read_table(path, _PAIR_COLUMNS)
    for place, *photos, answer in zip(places, *(columns[name] for name in _PAIR_COLUMNS)):
        rows.append([_row(f"--pairs ({place})", photo, folder, row_of) for photo in photos])
        same.append(_is_same(f"--pairs ({place})", answer))
    if not rows:
        raise invalid("--pairs", received=f"{path} without a pair", expected="a line for each labelled pair")
    left, right = np.array(rows).T
    return index.similarities(left, right), np.array(same)


def _row(place: str, text: str, folder: str, row_of: dict[str, int]) -> int:
    for name in (text, *spellings(os.path.normpath(os.path.join(folder, text)))):
        if name in row_of:
            return row_of[name]
    raise invalid(place, received=text, expected="the path of a photo that is in the index")


def _is_same(place: str, text: str) -> bool:
    word = text.lower()
    if word not in (*_YES, *_NO):
        raise invalid(place, received=text, expected="1 or 0 in the column same")
    return word in _YES


def calibrated(path: str, index: EmbeddingIndex, precision: float) -> CalibratedThreshold:
    """Calibrate a threshold for a precision on the labelled pairs of `path`."""
    try:
        return calibrate_threshold(*read_pairs(path, index), precision)
    except InvalidInput as error:
        raise InvalidInput(str(error).replace("Invalid target_precision:", "Invalid --precision:")) from error


def sentence(found: CalibratedThreshold) -> str:
    """Describe the calibration on the labelled pairs."""
    return (
        f"Threshold {shown_threshold(found.threshold)}: {100 * found.precision:.1f} % of the {found.num_accepted} "
        f"labelled pairs that reach it are the same (95 % interval {100 * found.low:.1f} to {100 * found.high:.1f}), "
        f"and {100 * found.recall:.1f} % of the same pairs reach it."
    )


def group_rows(pairs: DuplicatePairs, index: EmbeddingIndex) -> list[tuple[int, float, str, str]]:
    """Return a row per photo, as `HEADER`: by group from 1, most similar first."""
    nearest = pairs.nearest()
    lines = [
        (number, nearest[row][0], index.ids[row], index.ids[nearest[row][1]])
        for number, group in enumerate(pairs.groups(), 1)
        for row in group
    ]
    return sorted(lines, key=lambda line: (line[0], -line[1]))


def write_page(path: str, pairs: DuplicatePairs, index: EmbeddingIndex, threshold: float, most: int) -> None:
    """Write a page with strips of the first `most` groups."""
    nearest = pairs.nearest()
    groups = pairs.groups()
    labels = index.labels
    strips = [
        [
            Tile(index.ids[row], shown_similarity(nearest[row][0]), "" if labels is None else labels[row])
            for row in group
        ]
        for group in groups[:most]
    ]
    shown = f"the first {most} of {len(groups)} groups" if len(groups) > most else plural(len(groups), "group")
    reached = shown_threshold(threshold)
    summary = f"Photos that are at least {reached} similar, {shown}; below each its largest similarity."
    write_strips(path, "Near-duplicates", summary, strips)
