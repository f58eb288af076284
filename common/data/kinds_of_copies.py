"""Kinds of image copies in a cache: single files, or shards of many."""

from __future__ import annotations

import os

from common.data.image_jobs import cannot_write_cache
from common.errors import check_choice, invalid
from common.files import read_json, write_json

COPIES = ("files", "shards")


def chosen_copies(cache_dir: str | os.PathLike) -> str:
    """Return the kind of copies chosen for a cache (`COPIES`); default `files`.

    Raises:
        InvalidInput: the file that says so is damaged.
    """
    path = _path(cache_dir)
    if not os.path.exists(path):
        return COPIES[0]
    chosen = (read_json(path) or {}).get("copies")
    if chosen not in COPIES:
        raise invalid(
            "kind of copies",
            received=f"{path}, which is damaged",
            expected=f"a file that names one of {', '.join(COPIES)}",
            fix="Choose again by --copies of experiments.prepare_data.",
        )
    return chosen


def choose_copies(cache_dir: str | os.PathLike, copies: str) -> None:
    """Choose the kind of copies that all processes make and read in a cache.

    Copies of the other kind stay.

    Args:
        cache_dir: the cache, made if need be; the choice is kept in its `copies.json`.
        copies: one of `COPIES`.

    Raises:
        InvalidInput: there is no such kind, or the folder cannot be written.
    """
    check_choice("--copies", copies, COPIES)
    try:
        write_json(_path(cache_dir), {"copies": copies})
    except OSError as error:
        raise cannot_write_cache(error) from error


def _path(cache_dir: str | os.PathLike) -> str:
    return os.path.join(cache_dir, "copies.json")
