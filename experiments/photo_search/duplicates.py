"""Near-duplicates in an index, at a threshold or at one that labelled pairs ask for."""

from __future__ import annotations

import csv
import os

import numpy as np

from common.errors import InvalidInput, invalid
from common.index import CalibratedThreshold, DuplicatePairs, EmbeddingIndex, calibrate_threshold
from experiments.photo_search.shown import aligned, shown_path, write_csv
from experiments.photo_search.strips import Tile, write_strips

HEADER = ("group", "similarity", "first", "second")
_PAIR_COLUMNS = ("first", "second", "same")
_YES, _NO = ("1", "true", "yes", "same"), ("0", "false", "no", "different")


def read_pairs(path: str, index: EmbeddingIndex) -> tuple[np.ndarray, np.ndarray]:
    """Labelled pairs: similarities `[pairs]` in the index, and whether they are the same `[pairs]`, bool.

    Args:
        path: a CSV file with the columns `first`, `second` (paths, relative to the file's folder or absolute) and
            `same` (1 or 0, true or false, yes or no).
        index: has the photos.

    Raises:
        InvalidInput: no such file, a column that is missing, a photo that is not in the index; with the line.
    """
    if not os.path.isfile(path):
        raise invalid("--pairs", received=path, expected=f"a CSV file with the columns {', '.join(_PAIR_COLUMNS)}")
    row_of = {name: row for row, name in enumerate(index.ids)}
    folder = os.path.dirname(os.path.abspath(path))
    rows, same = [], []
    try:
        with open(path, encoding="utf-8-sig", newline="") as file:
            reader = csv.DictReader(file)
            missing = [name for name in _PAIR_COLUMNS if name not in (reader.fieldnames or ())]
            if missing:
                raise invalid(
                    f"--pairs ({path})",
                    received=f"the columns {', '.join(reader.fieldnames or ())}",
                    expected=f"a header with {', '.join(_PAIR_COLUMNS)}, separated by commas",
                )
            for line in reader:
                place = f"--pairs ({path}, line {reader.line_num})"
                rows.append([_row(place, line[name], folder, row_of) for name in _PAIR_COLUMNS[:2]])
                same.append(_is_same(place, line["same"]))
    except (csv.Error, UnicodeDecodeError) as error:
        raise invalid("--pairs", received=path, expected=f"a comma-separated UTF-8 file ({error})") from error
    if not rows:
        raise invalid("--pairs", received=f"{path} without a pair", expected="a line for each labelled pair")
    left, right = np.array(rows).T
    return index.similarities(left, right), np.array(same)


def _row(place: str, text: str | None, folder: str, row_of: dict[str, int]) -> int:
    path = os.path.normpath(os.path.join(folder, text or ""))
    for name in (text or "", path):
        if name in row_of:
            return row_of[name]
    raise invalid(place, received=text, expected="the path of a photo that is in the index")


def _is_same(place: str, text: str | None) -> bool:
    word = (text or "").strip().lower()
    if word not in (*_YES, *_NO):
        raise invalid(place, received=text, expected="1 or 0 in the column same")
    return word in _YES


def calibrated(path: str, index: EmbeddingIndex, precision: float) -> CalibratedThreshold:
    """The threshold for a precision on the pairs of a file; see `read_pairs` and `calibrate_threshold`."""
    try:
        return calibrate_threshold(*read_pairs(path, index), precision)
    except InvalidInput as error:
        raise InvalidInput(str(error).replace("Invalid target_precision:", "Invalid --precision:")) from error


def sentence(found: CalibratedThreshold) -> str:
    """What the labelled pairs say."""
    return (
        f"Threshold {found.threshold:.4f}: {100 * found.precision:.1f} % of the {found.num_accepted} labelled pairs "
        f"that reach it are the same (95 % interval {100 * found.low:.1f} to {100 * found.high:.1f}), and "
        f"{100 * found.recall:.1f} % of the same pairs reach it."
    )


def table(pairs: DuplicatePairs, index: EmbeddingIndex) -> str:
    """A line for each pair, in groups."""
    rows = [
        (str(group), f"{similarity:.4f}", shown_path(first), shown_path(second))
        for group, similarity, first, second in _lines(pairs, index)
    ]
    return aligned(HEADER, rows)


def write_pairs(path: str, pairs: DuplicatePairs, index: EmbeddingIndex) -> None:
    """Writes the same as a CSV file."""
    write_csv(path, HEADER, _lines(pairs, index))


def write_page(path: str, pairs: DuplicatePairs, index: EmbeddingIndex, threshold: float, most: int) -> None:
    """Writes a page with a strip for each of the first `most` groups."""
    best: dict[int, float] = {}
    for first, second, similarity in zip(pairs.first.tolist(), pairs.second.tolist(), pairs.similarities.tolist()):
        for row in (first, second):
            best[row] = max(similarity, best.get(row, -np.inf))
    groups = pairs.groups()
    labels = index.labels
    strips = [
        [Tile(index.ids[row], f"{best[row]:.4f}", "" if labels is None else labels[row]) for row in group]
        for group in groups[:most]
    ]
    shown = f"the first {most} of {len(groups)} groups" if len(groups) > most else f"{len(groups)} groups"
    summary = f"Photos that are at least {threshold:.4f} similar, {shown}; below each its largest similarity."
    write_strips(path, "Near-duplicates", summary, strips)


def _lines(pairs: DuplicatePairs, index: EmbeddingIndex) -> list[tuple[int, float, str, str]]:
    """Group (from 1), similarity and the two ids of each pair, by group, then the most similar first."""
    group_of = {row: number for number, group in enumerate(pairs.groups(), 1) for row in group}
    lines = [
        (group_of[first], similarity, index.ids[first], index.ids[second])
        for first, second, similarity in zip(pairs.first.tolist(), pairs.second.tolist(), pairs.similarities.tolist())
    ]
    return sorted(lines, key=lambda line: (line[0], -line[1]))
