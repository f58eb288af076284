"""The photos of a command: a folder, a table, or a single file."""

from __future__ import annotations

import os
from typing import NamedTuple

from common.data import find_image_files, read_image_table
from common.errors import invalid

_TABLES = (".csv", ".parquet")
_VIDEOS = (".mp4", ".mov", ".avi", ".mkv", ".webm", ".m4v", ".mpg", ".mpeg")


class Photos(NamedTuple):
    """Image files in order.

    Attributes:
        paths: absolute.
        labels: the class of each ("" for none), or None where none has one.
    """

    paths: list[str]
    labels: list[str] | None

    def without(self, known: set[str]) -> Photos:
        """Select the photos whose paths are not known."""
        kept = [place for place, path in enumerate(self.paths) if path not in known]
        labels = None if self.labels is None else [self.labels[place] for place in kept]
        return Photos([self.paths[place] for place in kept], labels)


def find_photos(place: str) -> Photos:
    """List the photos of a folder or table, or a single one.

    Args:
        place: a folder (photos at any depth; a photo's label is the path of its folder, unless all are in `place`
            itself, as frames of a video are), a `.csv` or `.parquet` table with a column `path` and possibly `label`,
            or an image file.

    Raises:
        InvalidInput: there is nothing, no image in it, or a path is there twice.
    """
    if os.path.isdir(place):
        found = find_image_files(place, "--images")
        labels = [label for _, label in found]
        photos = Photos([path for path, _ in found], labels if any(labels) else None)
    elif place.endswith(_TABLES) and os.path.isfile(place):
        photos = Photos(*read_image_table(place))
    elif os.path.isfile(place) and not place.lower().endswith(_VIDEOS):
        photos = Photos([os.path.abspath(place)], None)
    else:
        raise invalid(
            "--images", received=place, expected="a folder, a .csv or .parquet table, or an image file", fix=_fix(place)
        )
    return photos


def _fix(place: str) -> str | None:
    if not place.lower().endswith(_VIDEOS):
        return None
    name = os.path.splitext(os.path.basename(place))[0]
    return f"Frames of a video: mkdir {name} && ffmpeg -i {place} -vf fps=1 {name}/%06d.jpg, then --images={name}."
