"""Near-duplicates in an index, their thresholds, and the photo that stays."""

from __future__ import annotations

import hashlib
import math
import os
from collections.abc import Collection, Sequence

import numpy as np
from absl import flags

from common.commands.command_line import refuse_flags
from common.data import read_table, spellings
from common.errors import InvalidInput, invalid
from common.files import default_cache_dir
from common.pages.markup import plural
from photo_search.index import CalibratedThreshold, DuplicatePairs, EmbeddingIndex, calibrate_threshold
from photo_search.index.places import shown_place
from photo_search.photos.models import batch_size_of, embedder_of
from photo_search.photos.shown import Tile, picture_size, shown_similarity, shown_text, shown_threshold, write_strips

THRESHOLD = 0.95  # cosine, where nothing calibrates one
HEADER = ("group", "keep", "similarity", "path", "nearest")
KEEP = ("largest", "oldest", "first")
COPY_FLAGS = ("threshold", "calibrate", "keep")
_PAIR_COLUMNS = ("first", "second", "same")
_YES, _NO = ("1", "true", "yes", "same"), ("0", "false", "no", "different")

flags.disclaim_key_flags()  # they belong to the commands that ask for them


def define_copy_flags() -> None:
    """Define `COPY_FLAGS`."""
    text = "Similarity from which on photos are near-duplicates (default: by --calibrate=copies, else cosine .95)."
    flags.DEFINE_float("threshold", None, text)
    flags.DEFINE_enum("calibrate", None, ("copies",), "Learn from copies of the photos what is one (default).")
    text = "Photo of a group that stays: most pixels, oldest file, or first place (default: largest)."
    flags.DEFINE_enum("keep", None, KEEP, text)


def check_copy_flags(values: flags.FlagValues) -> None:
    """Check `--threshold` before anything is embedded."""
    if values.threshold is not None:
        refuse_flags(values, "calibrate", because="--threshold is the similarity itself")
        if values.images and not -1 <= values.threshold <= 1:
            raise invalid("--threshold", received=values.threshold, expected="a cosine, in [-1, 1]")


def copies_among(values: flags.FlagValues, index: EmbeddingIndex) -> tuple[DuplicatePairs | None, float]:
    """Return the copies among the photos of an index, and a threshold.

    The copies are None where all photos that reach the threshold are some. Without `--threshold` they are found by
    copies that are made of some photos. If photos or the network are missing, a line says so, and `THRESHOLD` is taken.

    Raises:
        InvalidInput: they are missing, and `--calibrate=copies` asks for them or the index is not by cosine.
    """
    from photo_search.photos.copies import find_copies

    if values.threshold is not None:
        return None, values.threshold
    try:
        embedder = embedder_of(values, index)
        place = shown_place(values.index) if values.index else os.path.abspath(values.images)
        digest = hashlib.sha256(os.fsencode(f"{embedder.digest} {place}")).hexdigest()[:16]
        cache = os.path.join(default_cache_dir(), "copies", digest)
        found = find_copies(index.ids, embedder, cache=cache, batch_size=batch_size_of(values))
    except InvalidInput as error:
        if values.calibrate or index.metric != "cosine":
            raise
        print(f"Copies are compared without calibration. {shown_text(str(error))}")
        return None, THRESHOLD
    for path, reason in found.left_out.items():
        print(shown_text(f"left out: {path} ({reason})"))
    print(found.sentence())
    return found.pairs, found.threshold


def kept_row(rows: Collection[int], paths: Sequence[str], keep: str) -> int:
    """Return the row of a group of copies that stays.

    Args:
        rows: of the group.
        paths: of all photos.
        keep: "largest" (pixels, then bytes), "oldest" (the file's time of change), or "first"; the first of equals.
    """

    def rank(path: str) -> tuple[float, ...]:
        if keep == "first" or not os.path.isfile(path):
            return (math.inf,)
        status = os.stat(path)
        return (status.st_mtime,) if keep == "oldest" else (-math.prod(picture_size(path) or (0,)), -status.st_size)

    return min(rows, key=lambda row: (*rank(paths[row]), row))


def across(pairs: DuplicatePairs, count: int) -> DuplicatePairs:
    """Select the groups with rows on both sides of row `count`."""
    rows = [row for group in pairs.groups() if min(group) < count <= max(group) for row in group]
    is_kept = np.isin(pairs.first, rows)
    return DuplicatePairs(*(each[is_kept] for each in pairs))


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


def group_rows(
    pairs: DuplicatePairs, paths: Sequence[str], stays: Collection[int]
) -> list[tuple[int, str, float, str, str]]:
    """Return a row per photo, as `HEADER`: by group from 1, most similar first."""
    nearest = pairs.nearest()
    lines = [
        (number, "yes" if row in stays else "no", nearest[row][0], paths[row], paths[nearest[row][1]])
        for number, group in enumerate(pairs.groups(), 1)
        for row in group
    ]
    return sorted(lines, key=lambda line: (line[0], -line[2]))


def write_page(
    path: str, pairs: DuplicatePairs, index: EmbeddingIndex, threshold: float, most: int, stays: Collection[int]
) -> None:
    """Write a page with strips of the first `most` groups."""
    nearest = pairs.nearest()
    groups = pairs.groups()
    labels = index.labels
    strips = [
        [
            Tile(
                index.ids[row],
                shown_similarity(nearest[row][0]) + (", keep" if row in stays else ""),
                "" if labels is None else labels[row],
            )
            for row in group
        ]
        for group in groups[:most]
    ]
    shown = f"the first {most} of {len(groups)} groups" if len(groups) > most else plural(len(groups), "group")
    reached = shown_threshold(threshold)
    summary = f"Photos that are at least {reached} similar, {shown}; below each its largest similarity."
    write_strips(path, "Near-duplicates", summary, strips)
