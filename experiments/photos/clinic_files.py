"""The clinic's page and tables, and the moves that a person decided on."""

from __future__ import annotations

import collections
import os
import pathlib
import shutil
from collections.abc import Sequence
from typing import NamedTuple

from common.data import read_csv_table
from common.errors import invalid
from common.files import write_text
from experiments.photos.clinic import EXACT, HEADER, LABEL, NEAR, OUTLIER, TINY, TINY_SIDE, Finding
from experiments.photos.shown import shown_text, thumbnail_of, write_csv
from experiments.site.markup import render

_TITLES = {
    EXACT: ("Copies", "Files with the same bytes as another photo; those in another class first."),
    NEAR: ("Near copies", "Photos that are nearly the same as another; those in another class first."),
    LABEL: ("Suspected labels", "Photos that are nearer to another class than to their own; the clearest first."),
    OUTLIER: ("Outliers", "Photos that are far from all others; the farthest first."),
    TINY: ("Tiny photos", f"Photos with fewer than {TINY_SIDE} pixels on the shorter side."),
}
_PIXELS = 320
_MOVE, _REMOVE = "move", "remove"
_COLUMNS = ("action", "path", "class")


class Move(NamedTuple):
    """A file, and the place that it moves to."""

    source: pathlib.Path
    target: pathlib.Path


def write_clinic(folder: str, name: str, num_photos: int, findings: Sequence[Finding], most: int) -> None:
    """Write `index.html`, with `most` findings of a kind, and `findings.csv` with all."""
    os.makedirs(folder, exist_ok=True)
    write_csv(os.path.join(folder, "findings.csv"), HEADER, [each[:5] for each in findings])
    root = os.path.commonpath([os.path.dirname(os.path.abspath(each.path)) for each in findings] or ["."])
    sections = []
    for kind, (title, note) in _TITLES.items():
        of_kind = [each for each in findings if each.kind == kind]
        if of_kind:
            shown = [_values(each, root) for each in of_kind[:most]]
            sections.append({"title": title, "note": note, "count": len(of_kind), "findings": shown})
    values = {"title": f"Photo clinic: {name}", "num_photos": num_photos, "sections": sections}
    write_text(os.path.join(folder, "index.html"), render("clinic.html", generator="experiments.clinic", **values))


def _values(finding: Finding, root: str) -> dict:
    path = os.path.abspath(finding.path)
    return {
        "path": path,
        "name": shown_text(os.path.relpath(path, root)),
        "address": pathlib.Path(path).as_uri(),
        "thumbnail": thumbnail_of(finding.path, _PIXELS),
        "label": finding.label,
        "score": finding.score,
        "size": f"{os.path.getsize(path):,} bytes" if os.path.isfile(path) else "",
        "suggestion": finding.suggestion if finding.kind == LABEL else "",
        "beside": [
            {
                "name": shown_text(os.path.relpath(each, root)),
                "address": pathlib.Path(each).absolute().as_uri(),
                "thumbnail": thumbnail_of(each),
            }
            for each in finding.beside
        ],
    }


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
            target = (base / label / source.name).resolve()
            if not label or base not in target.parents:
                raise invalid(f"--apply ({place})", received=label, expected=f"a class, a folder in {root}")
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
