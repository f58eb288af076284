"""Faults in a collection of photos (copies, labels, outliers), their page, and decided moves."""

from __future__ import annotations

import collections
import csv
import hashlib
import io
import itertools
import os
import pathlib
import shutil
import unicodedata
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from common.data import read_csv_table, spellings
from common.data.regular_files import contents_of
from common.errors import invalid
from common.files import write_text
from common.pages.markup import render
from photo_search.index import DuplicatePairs, EmbeddingIndex, find_label_suspects
from photo_search.photos.duplicates import kept_row
from photo_search.photos.shown import picture_size, shown_similarity, shown_text, thumbnail_of, write_csv

HEADER = ("finding", "score", "path", "label", "suggestion")
EXACT, NEAR, LABEL, DRAWN, OUTLIER, TINY = "copy", "near copy", "label", "drawn", "outlier", "tiny"
TINY_SIDE = 64  # pixels of the shorter side
_NEIGHBORS = 3
_NUM_NAMED = 3
_NUM_DRAWN = 100
_TITLES = {
    EXACT: ("Copies", "Files with the same bytes as another photo; those in another class first."),
    NEAR: ("Near copies", "Photos that are nearly the same as the one beside them; those in another class first."),
    LABEL: (
        "Suspected labels",
        "Photos that are nearer to another class than to their own; the clearest first. A suspect is a reason to look.",
    ),
    DRAWN: (
        "Drawn at random",
        "Labelled photos that are no suspects, beside three of their class. They show how many wrong labels are left.",
    ),
    OUTLIER: ("Outliers", "Photos that are far from all others; the farthest first."),
    TINY: ("Tiny photos", f"Photos with fewer than {TINY_SIDE} pixels on the shorter side."),
}
_PIXELS = 320
_MOVE, _REMOVE = "move", "remove"
_COLUMNS = ("action", "path", "class")


class Finding(NamedTuple):
    """A photo to look at."""

    kind: str  # `EXACT`, `NEAR`, `LABEL`, `DRAWN`, `OUTLIER` or `TINY`
    score: str  # sorts findings of a kind; "" where there is none
    path: str  # of the photo
    label: str  # its class, or ""
    suggestion: str  # another class for `LABEL` and `DRAWN`, the path of the other photo for copies, else ""
    beside: tuple[str, ...] = ()  # paths that show why


def examine(
    index: EmbeddingIndex, threshold: float, pairs: DuplicatePairs | None = None, keep: str = "first"
) -> list[Finding]:
    """Find photos to look at, copies across classes first; the files are read.

    Args:
        index: by cosine.
        threshold: cosine from which on photos are near copies.
        pairs: the near copies, if they are known already.
        keep: the photo of a group of copies that stays, and that the others are shown beside; see `kept_row`.
    """
    pairs = index.near_duplicates(threshold) if pairs is None else pairs
    labels = [""] * len(index) if index.labels is None else list(index.labels)
    exact = exact_copies(index.ids, labels, keep)
    is_exact = {each.path for each in exact}
    found = [*exact, *_near_copies(pairs, index.ids, labels, is_exact, keep)]
    label_of = dict(zip(index.ids, labels))
    found.sort(key=lambda each: not _differ(each.label, label_of[each.suggestion]))
    if len(set(labels) - {""}) > 1:
        found += _suspected_labels(index, labels)
    return [*found, *_outliers(index, labels), *_tiny(index.ids, labels)]


def _differ(label: str, other: str) -> bool:
    """Check whether two photos are of different classes; no class differs from none."""
    return bool(label and other) and label != other


class Move(NamedTuple):
    """A file, and the place that it moves to."""

    source: pathlib.Path
    target: pathlib.Path


def write_clinic(
    folder: str,
    name: str,
    num_photos: int,
    findings: Sequence[Finding],
    most: int,
    without_class: int = 0,
    *,
    judged: int = 0,
    removes: bool = False,
) -> None:
    """Write `index.html`, with `most` findings of a kind, and `findings.csv` with all.

    `without_class` counts the photos in no class, unless none is in one, `judged` those in classes of several photos.
    If `removes`, copies are chosen for removal: on the page, and all of them in `decisions.csv`.
    """
    os.makedirs(folder, exist_ok=True)
    write_csv(os.path.join(folder, "findings.csv"), HEADER, [each[:5] for each in findings if each.kind != DRAWN])
    if removes:
        copies = [os.path.abspath(each.path) for each in findings if each.kind in (EXACT, NEAR)]
        text = io.StringIO()
        lines = [(_REMOVE, path, "") for path in copies if _is_name(path)]
        csv.writer(text, lineterminator="\n").writerows([_COLUMNS, *lines])
        write_text(os.path.join(folder, "decisions.csv"), text.getvalue())
    root = os.path.commonpath([os.path.dirname(os.path.abspath(each.path)) for each in findings] or ["."])
    sections = []
    for kind, (title, note) in _TITLES.items():
        of_kind = [each for each in findings if each.kind == kind][: most if kind == DRAWN else None]
        if of_kind:
            is_removed = removes and kind in (EXACT, NEAR)
            shown = [{**_values(each, root), "is_removed": is_removed} for each in of_kind[:most]]
            sections.append({"title": title, "note": note, "findings": shown, "kind": kind, "count": len(of_kind)})
    values = {"title": shown_text(f"Photo clinic: {name}"), "num_photos": num_photos, "sections": sections}
    values |= {"without_class": without_class, "judged": judged}
    write_text(
        os.path.join(folder, "index.html"),
        render("photo_search", "clinic.html", generator="photo_search.clinic", **values),
    )


def _values(finding: Finding, root: str) -> dict:
    path = os.path.abspath(finding.path)
    return {
        "path": path if _is_name(path) else "",  # which no file of decisions can state
        "name": shown_text(os.path.relpath(path, root)),
        "address": pathlib.Path(path).as_uri(),
        "thumbnail": thumbnail_of(finding.path, _PIXELS),
        "label": shown_text(finding.label),
        "score": finding.score,
        "size": f"{os.path.getsize(path):,} bytes" if os.path.isfile(path) else "",
        "suggestion": shown_text(finding.suggestion) if finding.kind in (LABEL, DRAWN) else "",
        "is_class": _is_name(finding.suggestion),
        "other": os.path.abspath(finding.suggestion)
        if finding.kind in (EXACT, NEAR) and _is_name(finding.suggestion)
        else "",
        "beside": [
            {
                "name": shown_text(os.path.relpath(each, root)),
                "address": pathlib.Path(each).absolute().as_uri(),
                "thumbnail": thumbnail_of(each),
            }
            for each in finding.beside
        ],
    }


def _is_name(text: str) -> bool:
    """Return True for a text of UTF-8 without control characters."""
    return not any(unicodedata.category(letter) in ("Cc", "Cs") for letter in text)


def planned_moves(decisions: str, root: str, removed: str) -> list[Move]:
    """Read the page's decisions.

    Args:
        decisions: a CSV file with the columns `action` (move or remove), `path` and `class`.
        root: the folder of class folders; a class is a path below it.
        removed: the folder that receives removed photos.
    """
    if not os.path.isfile(decisions):
        raise invalid("--apply", received=decisions, expected="the decisions.csv that the clinic's page saves")
    base, moves = pathlib.Path(root).resolve(), []
    targets: collections.Counter[pathlib.Path] = collections.Counter()
    places, columns = read_csv_table(decisions, _COLUMNS)
    for place, action, path, label in zip(places, *(columns[name] for name in _COLUMNS)):
        source = pathlib.Path(path)
        if action not in (_MOVE, _REMOVE):
            raise invalid(f"--apply ({place})", received=action, expected=f"{_MOVE} or {_REMOVE}")
        if not source.is_file() or base not in source.resolve().parents:
            raise invalid(f"--apply ({place})", received=path, expected=f"a photo in {root}")
        if action == _REMOVE:
            target = pathlib.Path(removed).resolve() / source.resolve().relative_to(base)
        else:
            known = next((each for each in spellings(label) if _is_name(each) and (base / each).is_dir()), label)
            folder = (base / known).resolve() if _is_name(label) else base
            if base not in folder.parents:
                raise invalid(f"--apply ({place})", received=label, expected=f"a class, a folder in {root}")
            target = folder / source.name
        targets[target] += 1
        if target.exists() or targets[target] > 1:
            fix = "Rename one of the photos."
            raise invalid(f"--apply ({place})", received=f"{target}, which is taken", expected="a free name", fix=fix)
        moves.append(Move(source, target))
    return moves


def carry_out(moves: Sequence[Move], log: str) -> None:
    """Move the files; log those moved as CSV, also after an error."""
    done = []
    try:
        for move in moves:
            move.target.parent.mkdir(parents=True, exist_ok=True)
            shutil.move(move.source, move.target)
            done.append((str(move.source), str(move.target)))
    finally:
        write_csv(log, ("from", "to"), done)


def exact_copies(paths: Sequence[str], labels: list[str], keep: str = "first") -> list[Finding]:
    """Find files with equal bytes; one of each group stays, see `kept_row`."""
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
        Finding(EXACT, "", paths[row], labels[row], paths[stays], (paths[stays],))
        for group in groups.values()
        for stays in [kept_row(group, paths, keep)]
        for row in group
        if row != stays
    ]


def _near_copies(
    pairs: DuplicatePairs, paths: Sequence[str], labels: list[str], exact: set[str], keep: str
) -> list[Finding]:
    """Find near copies: photos of a group except exact copies and the one kept."""
    nearest, found = pairs.nearest(), []
    for group in pairs.groups():
        rows = [row for row in group if paths[row] not in exact]
        if not rows:
            continue
        stays = kept_row(rows, paths, keep)
        for row in rows:
            if row != stays:
                score = shown_similarity(nearest[row][0])
                found.append(Finding(NEAR, score, paths[row], labels[row], paths[stays], (paths[stays],)))
    return sorted(found, key=lambda each: each.score, reverse=True)


def _suspected_labels(index: EmbeddingIndex, labels: list[str]) -> list[Finding]:
    """Find photos nearer to another class, then draw some of the others.

    Beside the first are examples of the other class, beside the others of their own.
    """
    suspects = find_label_suspects(np.asarray(index.embeddings, np.float32), labels)
    of_class = collections.defaultdict(list)
    for row, label in enumerate(labels):
        of_class[label].append(row)
    count = int((suspects.scores > 0).sum())
    others = count + np.random.default_rng(0).permutation(len(suspects.rows) - count)[:_NUM_DRAWN]
    found = []
    for place in [*range(count), *others.tolist()]:
        row, score, other = (each[place].item() for each in suspects)
        kind, score, example = (LABEL, f"{score:.4f}", other) if place < count else (DRAWN, "", labels[row])
        beside = _nearest(index, row, of_class[example])
        found.append(Finding(kind, score, index.ids[row], labels[row], other, beside))
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
        size = picture_size(path)
        if size is not None and min(size) < TINY_SIDE:
            found.append(Finding(TINY, str(min(size)), path, label, ""))
    return found
