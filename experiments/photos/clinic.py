"""Faults in a collection of photos: copies, suspected labels, outliers, tiny photos."""

from __future__ import annotations

import collections
import hashlib
import itertools
import os
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from common.data.image_formats import open_image
from common.data.regular_files import contents_of
from common.index import EmbeddingIndex, find_label_suspects
from experiments.photos.shown import shown_similarity

HEADER = ("finding", "score", "path", "label", "suggestion")
EXACT, NEAR, LABEL, OUTLIER, TINY = "copy", "near copy", "label", "outlier", "tiny"
TINY_SIDE = 64  # pixels of the shorter side
_NEIGHBORS = 3
_NUM_NAMED = 3


class Finding(NamedTuple):
    """A photo to look at."""

    kind: str  # `EXACT`, `NEAR`, `LABEL`, `OUTLIER` or `TINY`
    score: str  # sorts findings of a kind; "" where there is none
    path: str  # of the photo
    label: str  # its class, or ""
    suggestion: str  # another class for `LABEL`, the path of the other photo for copies, else ""
    beside: tuple[str, ...] = ()  # paths that show why


def examine(index: EmbeddingIndex, threshold: float) -> list[Finding]:
    """Find photos to look at, copies across classes first.

    The index is by cosine, as is `threshold`, from which on photos are near copies; the files are read.
    """
    labels = [""] * len(index) if index.labels is None else list(index.labels)
    exact = exact_copies(index.ids, labels)
    found = [*exact, *_near_copies(index, labels, threshold, {each.path for each in exact})]
    label_of = dict(zip(index.ids, labels))
    found.sort(key=lambda each: each.label == label_of[each.suggestion])
    if len(set(labels)) > 1:
        found += _suspected_labels(index, labels)
    return [*found, *_outliers(index, labels), *_tiny(index.ids, labels)]


def exact_copies(paths: Sequence[str], labels: list[str]) -> list[Finding]:
    """Find files with equal bytes; the first of each group is the original."""
    by_size = collections.defaultdict(list)
    for row, path in enumerate(paths):
        if os.path.isfile(path):
            by_size[os.path.getsize(path)].append(row)
    groups = collections.defaultdict(list)
    for row in itertools.chain(*(rows for rows in by_size.values() if len(rows) > 1)):
        contents = contents_of(paths[row])
        if not isinstance(contents, str):
            groups[hashlib.sha256(contents).digest()].append(row)
    return [
        Finding(EXACT, "", paths[row], labels[row], paths[first], (paths[first],))
        for first, *copies in groups.values()
        for row in copies
    ]


def _near_copies(index: EmbeddingIndex, labels: list[str], threshold: float, exact: set[str]) -> list[Finding]:
    pairs = index.near_duplicates(threshold)
    found = []
    for first, second, similarity in zip(pairs.first.tolist(), pairs.second.tolist(), pairs.similarities.tolist()):
        first_path, path = index.ids[first], index.ids[second]
        if path not in exact and first_path not in exact:
            score = shown_similarity(similarity)
            found.append(Finding(NEAR, score, path, labels[second], first_path, (first_path,)))
    return found


def _suspected_labels(index: EmbeddingIndex, labels: list[str]) -> list[Finding]:
    """Find photos nearer to another class, with examples of it."""
    suspects = find_label_suspects(np.asarray(index.embeddings, np.float32), labels)
    of_class = collections.defaultdict(list)
    for row, label in enumerate(labels):
        of_class[label].append(row)
    found = []
    for row, score, label in zip(suspects.rows.tolist(), suspects.scores.tolist(), suspects.suggested.tolist()):
        if score <= 0:
            break
        beside = _nearest(index, row, of_class[label])
        found.append(Finding(LABEL, f"{score:.4f}", index.ids[row], labels[row], label, beside))
    return found


def _nearest(index: EmbeddingIndex, row: int, among: list[int]) -> tuple[str, ...]:
    others = np.array([each for each in among if each != row])
    cosines = np.asarray(index.embeddings[others], np.float32) @ np.asarray(index.embeddings[row], np.float32)
    return tuple(index.ids[each] for each in others[np.argsort(-cosines)[:_NUM_NAMED]])


def _outliers(index: EmbeddingIndex, labels: list[str]) -> list[Finding]:
    """Find photos far from all others.

    Their mean cosine is below the first quartile by 1.5 times the distance of the quartiles (Tukey's fence).
    """
    depth = min(_NEIGHBORS, len(index) - 1)
    if depth < 1:
        return []
    nearest = index.neighbors_of(np.arange(len(index)), depth).similarities.mean(axis=1)
    low, high = np.quantile(nearest, (0.25, 0.75))
    rows = np.flatnonzero(nearest < low - 1.5 * (high - low))
    rows = rows[np.argsort(nearest[rows])]
    found = zip(rows.tolist(), nearest[rows].tolist())
    return [Finding(OUTLIER, shown_similarity(mean), index.ids[row], labels[row], "") for row, mean in found]


def _tiny(paths: Sequence[str], labels: list[str]) -> list[Finding]:
    found = []
    for path, label in zip(paths, labels):
        side = _shorter_side(path)
        if side is not None and side < TINY_SIDE:
            found.append(Finding(TINY, str(side), path, label, ""))
    return found


def _shorter_side(path: str) -> int | None:
    """Return a photo's shorter side in pixels; None if unreadable."""
    contents = contents_of(path)
    if isinstance(contents, str):
        return None
    try:
        with open_image(contents) as image:
            return min(image.size)
    except Exception:  # noqa: BLE001 (Pillow raises what it likes about damaged files)
        return None
