"""The kind of store that keeps the index of a place."""

from __future__ import annotations

import os

from photo_search.index.database import IndexDatabase
from photo_search.index.index_folder import IndexFolder
from photo_search.index.places import is_database


def store_of(place: str | os.PathLike) -> type[IndexFolder | IndexDatabase]:
    """Return the kind of store that keeps the index of a place."""
    return IndexDatabase if is_database(place) else IndexFolder
