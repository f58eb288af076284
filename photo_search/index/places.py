"""Places of an index: paths of folders, and addresses of PostgreSQL databases."""

from __future__ import annotations

import hashlib
import os
import pathlib
import re

from common.errors import InvalidInput
from common.files import default_cache_dir

_DATABASE = re.compile(r"postgres(ql)?://")
_DEFAULT_NAME = "photo_index"


class StoreError(InvalidInput):
    """A store that does not answer, refuses, or has another index.

    The message names its address.
    """


def is_database(place: str | os.PathLike) -> bool:
    """Return whether the place of an index is an address of a database."""
    return isinstance(place, str) and _DATABASE.match(place) is not None


def address_and_name(place: str) -> tuple[str, str]:
    """Split a database's address from the index's name behind `#`."""
    credentials, at, rest = place.rpartition("@")
    address, _, name = rest.partition("#")
    return f"{credentials}{at}{address}", name or _DEFAULT_NAME


def shown_place(place: str) -> str:
    """Return a place for messages, with *** for a password."""
    if not is_database(place):
        return place
    shown = re.sub(r"^(\w+://[^:/?#@]*):.*@", r"\1:***@", place, flags=re.DOTALL)
    if "@" not in place:  # a password without a host looks like a port
        shown = re.sub(r"^(\w+://[^:/?#\[]*):(?!\d+([/?#]|$))[^/?#]*", r"\1:***", shown)
    return re.sub(r"(password=)[^&#]*", r"\1***", shown)


def name_of(place: str) -> str:
    """Return the short name of an index."""
    return address_and_name(place)[1] if is_database(place) else pathlib.Path(place).name


def parts_of(place: str, suffix: str = "parts") -> str:
    """Return the folder for embeddings that a stopped command keeps.

    It is beside the index, or in the working folder for a database, with a digest of its address.
    """
    address = hashlib.sha256(os.fsencode(shown_place(place))).hexdigest()[:8]
    return f"{name_of(place)}-{address}.{suffix}" if is_database(place) else f"{place.rstrip(os.sep)}.{suffix}"


def cache_folder(place: str | os.PathLike) -> str:
    """Return the folder for digests of photos.

    It is that of the index, or the user's cache for a database.
    """
    return default_cache_dir() if is_database(place) else os.fspath(place)
