"""Places of an index: a folder, or a PostgreSQL database."""

from __future__ import annotations

import hashlib
import os
import pathlib
import re
from collections.abc import Mapping
from typing import Any, Protocol

import numpy as np

from common.errors import InvalidInput
from common.files import check_output_folder
from photo_search.index.approximate import ApproximateSearch
from photo_search.index.index_folder import RECORD, IndexFolder
from photo_search.index.rows import Rows

_DATABASE = re.compile(r"postgres(ql)?://")
_DEFAULT_NAME = "photo_index"


class StoreError(InvalidInput):
    """A database that does not answer, refuses, or has another index; the message names its address."""


class Store(Protocol):
    """Rows and record of one index, as they were when it was opened.

    Each change is made whole or not at all. Settings of the record, such as `rounding_error`, change with rows.
    """

    record: dict
    root: str | None
    recorded_root: str | None

    def rows(self) -> Rows:
        """Return all rows; embeddings are read when used."""

    def check_whole(self) -> None:
        """Refuse rows that have been damaged since they were opened."""

    def refresh(self) -> bool:
        """Take over what others have changed since; return whether there is anything."""

    def append(self, rows: Rows, **changes: object) -> None:
        """Append rows of the stored type."""

    def exchange(self, removed: np.ndarray, rows: Rows, **changes: object) -> None:
        """Remove rows by their number, and append others."""

    def rewrite(self, sources: np.ndarray, rows: Rows, **changes: object) -> None:
        """Replace all rows; `sources` are the present rows whose embeddings they have, or -1."""

    def replace_metadata(self, texts: Mapping[int, str]) -> None:
        """Replace the metadata of some rows, by their number."""

    def nearest(self, queries: np.ndarray, k: int, among: np.ndarray | None) -> np.ndarray | None:
        """Return the nearest rows `[queries, k]`, exactly.

        None: the embeddings themselves should be searched.
        """

    def model_file(self) -> pathlib.Path | None:
        """Return a file with the model that the index keeps, or None."""

    def own_graph(self, kind: str) -> Any:  # noqa: ANN401
        """Build the store's own approximate index; None: faiss should."""

    def keep_approximate(self, found: ApproximateSearch) -> None:
        """Store an approximate index, and record it."""

    def approximate(self) -> ApproximateSearch:
        """Return the recorded approximate index."""


def is_database(place: str | os.PathLike) -> bool:
    """Return whether the place of an index is an address of a database."""
    return isinstance(place, str) and _DATABASE.match(place) is not None


def open_store(place: str | os.PathLike, root: str | os.PathLike | None = None) -> Store:
    """Open the index of a place."""
    return _kind(place)(place, root)


def create_store(
    place: str | os.PathLike,
    settings: dict,
    rows: Rows,
    *,
    replace: bool = False,
    root: str | os.PathLike | None = None,
) -> Store:
    """Write a new index to a place; see `IndexFolder.create`."""
    return _kind(place).create(place, settings, rows, replace=replace, root=root)


def keep_model(place: str | os.PathLike, contents: bytes) -> None:
    """Keep a model's file at a place, perhaps before its index."""
    _kind(place).keep_model(place, contents)


def _kind(place: str | os.PathLike) -> Any:  # noqa: ANN401
    if not is_database(place):
        return IndexFolder
    from photo_search.index.database import IndexDatabase  # here, for it needs the extra `postgres`

    return IndexDatabase


def has_index(place: str) -> bool:
    """Return whether a place has an index."""
    return _kind(place).exists(place) if is_database(place) else pathlib.Path(place, RECORD).exists()


def check_place(flag: str, place: str) -> None:
    """Raise `InvalidInput` if a place cannot have an index."""
    if not is_database(place):
        check_output_folder(flag, place)


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
    """Return the folder for copies and digests.

    It is that of the index, or the user's for a database.
    """
    if not is_database(place):
        return os.fspath(place)
    base = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
    return os.path.join(base, "deep-metric-learning")
