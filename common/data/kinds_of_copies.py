"""Kinds of image copies in a cache: single files, shards of many, compressed shards."""

from __future__ import annotations

import os

from common.data.image_jobs import cannot_write_cache
from common.errors import check_choice, invalid
from common.files import read_json, write_json

COPIES = ("files", "shards", "compressed")
EXACT = COPIES[:2]  # with the same bytes
MANY = 20_000  # images: their copies are shards by default


def chosen_copies(cache_dir: str | os.PathLike, num_images: int = 0) -> str:
    """Return the kind of copies chosen for a cache (`EXACT`).

    By default more than `MANY` images have shards, unless the cache has copies as files; fewer have files.

    Args:
        cache_dir: the cache; it may be missing.
        num_images: of the data set.

    Raises:
        InvalidInput: the file that says so is damaged.
    """
    path = _path(cache_dir)
    if not os.path.exists(path):
        return EXACT[num_images > MANY and not os.path.isdir(os.path.join(cache_dir, "prepared"))]
    chosen = (read_json(path) or {}).get("copies")
    if chosen not in EXACT:
        raise invalid(
            "kind of copies",
            received=f"{path}, which is damaged",
            expected=f"a file that names one of {', '.join(EXACT)}",
            fix="Choose again by --copies of experiments.prepare_data.",
        )
    return chosen


def choose_copies(cache_dir: str | os.PathLike, copies: str) -> None:
    """Choose the kind of copies that all processes make and read in a cache.

    Copies of the other kind stay.

    Args:
        cache_dir: the cache, made if need be; the choice is kept in its `copies.json`.
        copies: one of `EXACT`.

    Raises:
        InvalidInput: there is no such kind, or the folder cannot be written.
    """
    check_choice("--copies", copies, EXACT)
    try:
        write_json(_path(cache_dir), {"copies": copies})
    except OSError as error:
        raise cannot_write_cache(error) from error


def _path(cache_dir: str | os.PathLike) -> str:
    return os.path.join(cache_dir, "copies.json")
