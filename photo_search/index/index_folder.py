"""The folder of an index: append-only columns, and a record of their valid rows."""

from __future__ import annotations

import contextlib
import math
import mmap
import os
import pathlib
import re
import secrets
from collections.abc import Iterable, Iterator, Mapping
from typing import BinaryIO, cast

import numpy as np

from common.errors import InvalidInput, invalid
from common.files import (
    Maybe,
    Number,
    check_output_folder,
    checked,
    errors_name,
    hold_lock,
    read_json,
    remove_temporary_files,
    write_atomically,
    write_json,
)
from photo_search.index.places import StoreError
from photo_search.index.rows import Rows, TextColumn, below_root, encoded, exchanged
from photo_search.index.similarity import METRICS
from photo_search.index.store import Store

RECORD = "index.json"
MODEL = "model.keras"
_FORMAT = 1
_LATER_TEXTS = {"digests": "digest_ends", "metadata": "metadata_ends"}  # which older indexes lack
_TEXTS = {"ids": "id_ends", "labels": "label_ends", **_LATER_TEXTS}
_LATER_COLUMNS = (*_LATER_TEXTS, *_LATER_TEXTS.values())
_COLUMNS = ("embeddings", *_TEXTS, *_TEXTS.values())
_OWN_NAME = re.compile(rf"({'|'.join(_COLUMNS)})-[0-9a-f]{{8}}\.bin")
_COUNT = Number(int, 0, 2**48)
SETTINGS = {
    "dim": _COUNT,
    "root": Maybe(str),
    "has_labels": bool,
    "dtype": {"float32", "float16"},
    "metric": set(METRICS),
    "model_digest": Maybe(str),
    "rounding_error": Number(float, 0),
}
_DESCRIPTION = {
    **SETTINGS,
    "rows": _COUNT,
    "files": {
        **dict.fromkeys(_COLUMNS, _OWN_NAME),
        **dict.fromkeys(_LATER_COLUMNS, Maybe(_OWN_NAME, is_null_allowed=False)),
    },
    "bytes": {**dict.fromkeys(_TEXTS, _COUNT), **dict.fromkeys(_LATER_TEXTS, Maybe(_COUNT, is_null_allowed=False))},
}
_ROWS_AT_ONCE = 65_536


class IndexFolder(Store):
    """The files of one index; `index.json` counts its valid rows.

    Rows are appended to the files and then counted by replacing `index.json`. So a process killed at any moment leaves
    the index unchanged, and a reader sees the old rows or all new ones. Bytes beyond the count are remains of a stopped
    write. A second writer is refused.

    Args:
        folder: with an `index.json`; see `create`.
        root: folder that stored paths are relative to; None: the recorded one, if any. The next write records it.

    Raises:
        InvalidInput: there is no index, it is damaged, or another version of the code wrote it.
    """

    def __init__(self, folder: str | os.PathLike, root: str | os.PathLike | None = None) -> None:
        self.folder = pathlib.Path(folder)
        self._maps: list[mmap.mmap] = []
        self._take(self._read())
        self.root = self.recorded_root if root is None else os.path.abspath(root)

    @classmethod
    def exists(cls, folder: str | os.PathLike) -> bool:
        """Return whether the folder has an index."""
        return pathlib.Path(folder, RECORD).exists()

    @classmethod
    def check(cls, flag: str, folder: str, texts: Iterable[str] = ()) -> None:
        """Raise `InvalidInput` if the folder cannot have an index, whatever its texts are."""
        check_output_folder(flag, folder)

    @classmethod
    def create(
        cls,
        folder: str | os.PathLike,
        settings: dict,
        rows: Rows,
        *,
        replace: bool = False,
        root: str | os.PathLike | None = None,
    ) -> IndexFolder:
        """Write a new index.

        Args:
            folder: made if missing.
            settings: `dim`, `dtype`, `metric`, `model_digest`, `rounding_error`.
            rows: the first rows, of the stored type; possibly none.
            replace: replace an existing index once the new one is complete; otherwise it is an `InvalidInput`.
            root: paths below this folder are stored relative to it.
        """
        folder = pathlib.Path(folder)
        if cls.exists(folder) and not replace:
            fix = "Add to it, name another folder, or say that it may be replaced."
            raise invalid("index folder", received=str(folder), expected="a folder without an index", fix=fix)
        folder.mkdir(parents=True, exist_ok=True)
        place = None if root is None else os.path.abspath(root)
        with _locked(folder):
            settings = {"format": _FORMAT, **settings, "root": _entry_of(folder, place)}
            with _none_left_on_failure(folder):
                record = _written(folder, settings, rows, place)
                write_json(folder / RECORD, record)
            _remove_other_files(folder, record)
        return cls(folder)

    @classmethod
    def keep_model(cls, folder: str | os.PathLike, contents: bytes) -> None:
        """Keep a model's file in the folder, which is made if missing."""
        path = pathlib.Path(folder, MODEL)
        if not (path.is_file() and path.read_bytes() == contents):
            write_atomically(path, lambda file: file.write(contents))

    def model_file(self) -> pathlib.Path | None:
        """Return the path of the model that the folder keeps, or None."""
        path = self.folder / MODEL
        return path if path.is_file() else None

    def rows(self) -> Rows:
        """Return all rows, memory-mapped.

        Raises:
            InvalidInput: a file is shorter than recorded, or the ends of texts do not ascend to the last one's.
        """
        self._maps.clear()
        embeddings = self._mapped(
            "embeddings", np.dtype(self.record["dtype"]), (self.record["rows"], self.record["dim"])
        )
        labels = self._texts("labels") if self.record["has_labels"] else None
        later = {name: self._texts(name) for name in _LATER_TEXTS if name in self.record["files"]}
        return Rows(embeddings, self._texts("ids", self.root or ""), labels, **later)

    def refresh(self) -> bool:
        """Take over rows that another process has written; return whether there are any.

        Raises:
            StoreError: its embeddings are of another model now, so that no present query is comparable.
        """
        record = self._read() if self.exists(self.folder) else self.record  # open files outlive a folder
        if record["model_digest"] != self.record["model_digest"]:
            raise StoreError(f"{self.folder} was replaced by an index of another model. Open it again.")
        if all(record[name] == self.record[name] for name in ("rows", "files")):
            return False
        follows = self.root == self.recorded_root
        self._take(record)
        self.root = self.recorded_root if follows else self.root
        return True

    def check_whole(self) -> None:
        """Refuse truncated mapped files (`InvalidInput`), since reading them is a bus error."""
        if any(part.size() < len(part) for part in self._maps):
            raise InvalidInput(
                f"{self.folder} was cut off while it was open. Build the index again, and open it again."
            )

    def append(self, rows: Rows, **changes: object) -> None:
        """Append rows without rewriting the existing ones.

        Args:
            rows: of the stored type, with labels if the index has labels.
            **changes: of the record, such as a new largest rounding error.

        Raises:
            InvalidInput: another process is writing, or has added rows since this one opened the index.
        """
        with _locked(self.folder):
            self._commit_rows({**_filled(self.folder, self._unchanged(), rows, self.root), **changes})

    def exchange(self, removed: np.ndarray, rows: Rows, **changes: object) -> None:
        """Remove rows by their number, and append others, by new files of all."""
        self.rewrite(np.empty(0, np.int64), exchanged(self.rows(), removed, rows), **changes)

    def rewrite(self, sources: np.ndarray, rows: Rows, **changes: object) -> None:
        """Replace all rows at once, by new files.

        Args:
            sources: unused, since all rows are written.
            rows: of the stored type; they may be read from the present files.
            **changes: of the record.

        Raises:
            InvalidInput: as `append`.
        """
        with _locked(self.folder):
            with _none_left_on_failure(self.folder):
                record = {**_written(self.folder, self._unchanged(), rows, self.root), **changes}
                self._commit_rows(record)
            _remove_other_files(self.folder, record)

    def replace_metadata(self, texts: Mapping[int, str]) -> None:
        """Replace the metadata of some rows by new files of all; other columns stay.

        Raises:
            InvalidInput: as `append`.
        """
        known = self.rows().metadata or [""] * self.record["rows"]
        every = [texts.get(row, text) for row, text in enumerate(known)]
        with _locked(self.folder):
            record = self._unchanged()
            with _none_left_on_failure(self.folder):
                files = record["files"] | _new_files(self.folder, ("metadata", "metadata_ends"))
                size = _append_texts(self.folder, files, "metadata", every, 0, 0)
                record |= {"files": files, "bytes": {**record["bytes"], "metadata": size}}
                self._commit_rows(record)
            _remove_other_files(self.folder, record)

    def _take(self, record: dict) -> None:
        self.record, recorded = record, record.get("root")
        self.recorded_root = None if recorded is None else os.path.abspath(self.folder / recorded)

    def _unchanged(self) -> dict:
        """Return the record, or raise `InvalidInput` if another process has changed the rows."""
        record = self._read()
        if record["rows"] != self.record["rows"] or record["files"] != self.record["files"]:
            raise self._changed()
        return record

    def _changed(self) -> InvalidInput:
        fix = "Load the index again and repeat the step."
        return invalid("index", received=f"{self.folder}, changed meanwhile", expected="one writer", fix=fix)

    def _commit_rows(self, record: dict) -> None:
        record = {**record, "root": _entry_of(self.folder, self.root)}
        write_json(self.folder / RECORD, record)
        self.record, self.recorded_root = record, self.root

    def _read(self) -> dict:
        path = self.folder / RECORD
        if not path.is_file():
            fix = "Build one and save it there, or correct the path."
            raise invalid("index folder", received=str(self.folder), expected=f"a folder with {RECORD}", fix=fix)
        record = read_json(path)
        if record is not None and record.get("format", _FORMAT) != _FORMAT:
            raise InvalidInput(f"{path} has format {record['format']!r}, this version of the code reads {_FORMAT}.")
        if record is None:
            raise InvalidInput(f"{path} is damaged, so the index cannot be read. Build it again.")
        checked(record, _DESCRIPTION, str(path), fix="The file is damaged: build the index again.")
        return record

    def _texts(self, column: str, root: str = "") -> TextColumn:
        size, ends = self.record["bytes"].get(column, 0), self._mapped(_TEXTS[column], np.int64, (self.record["rows"],))
        if np.any(np.diff(ends, prepend=0) < 0) or (ends[-1] if len(ends) else 0) != size:
            path = self.folder / self.record["files"][_TEXTS[column]]
            raise InvalidInput(f"{path} is damaged: ends of texts do not ascend to {size}. Build the index again.")
        return TextColumn(self._mapped(column, np.uint8, (size,)), ends, root)

    def _mapped(self, column: str, dtype: np.dtype | type, shape: tuple[int, ...]) -> np.ndarray:
        path = self.folder / self.record["files"][column]
        wanted = math.prod(shape) * np.dtype(dtype).itemsize
        size = path.stat().st_size if path.is_file() else 0
        if size < wanted:
            raise InvalidInput(
                f"{path} is damaged: it has {size} bytes, expected {wanted} or more. Build the index again."
            )
        if not wanted:
            return np.zeros(shape, dtype)
        mapped = np.memmap(path, dtype, "r", shape=shape)
        self._maps.append(cast("mmap.mmap", mapped.base))
        return mapped


def _written(folder: pathlib.Path, settings: dict, rows: Rows, root: str | None) -> dict:
    """Write rows to new files; return a record of these."""
    empty = {"rows": 0, "files": _new_files(folder, _COLUMNS), "bytes": dict.fromkeys(_TEXTS, 0)}
    return _filled(folder, {**settings, **empty, "has_labels": rows.labels is not None}, rows, root)


def _new_files(folder: pathlib.Path, columns: Iterable[str]) -> dict[str, str]:
    """Make an empty file for each column; return their names."""
    token = secrets.token_hex(4)
    files = {column: f"{column}-{token}.bin" for column in columns}
    for name in files.values():
        (folder / name).touch()
    return files


def _entry_of(folder: pathlib.Path, root: str | None) -> str | None:
    """Return the root as recorded, relative to the index."""
    return None if root is None else os.path.relpath(root, folder)


def _filled(folder: pathlib.Path, record: dict, rows: Rows, root: str | None) -> dict:
    """Write rows behind the counted ones; return the record that includes them."""
    count, files, sizes = record["rows"], record["files"], dict(record["bytes"])
    unknown = [""] * len(rows.embeddings)
    later = {"digests": rows.digests or unknown, "metadata": rows.metadata or unknown}
    row_bytes = record["dim"] * np.dtype(record["dtype"]).itemsize
    with _appending(folder / files["embeddings"], count * row_bytes) as file:
        for start in range(0, len(rows.embeddings), _ROWS_AT_ONCE):
            file.write(np.ascontiguousarray(rows.embeddings[start : start + _ROWS_AT_ONCE]).data)
    for column, texts in {"ids": below_root(rows.ids, root), "labels": rows.labels or (), **later}.items():
        if column in files:
            sizes[column] = _append_texts(folder, files, column, texts, count, sizes[column])
    return {**record, "rows": count + len(rows.embeddings), "bytes": sizes}


def _append_texts(
    folder: pathlib.Path, files: dict[str, str], column: str, texts: Iterable[str], count: int, size: int
) -> int:
    """Write texts behind `count` texts of `size` bytes; return the new size."""
    content, ends = encoded(texts, size)
    with _appending(folder / files[column], size) as file:
        file.write(content)
    with _appending(folder / files[_TEXTS[column]], count * ends.itemsize) as file:
        file.write(ends.data)
    return size + len(content)


@contextlib.contextmanager
def _appending(path: pathlib.Path, end: int) -> Iterator[BinaryIO]:
    """Open a file for writing from byte `end` on; flush it afterwards.

    Bytes behind `end` are cut off.
    """
    with errors_name(path), path.open("r+b") as file:
        file.truncate(end)
        file.seek(end)
        yield file
        file.flush()
        os.fsync(file.fileno())


@contextlib.contextmanager
def _none_left_on_failure(folder: pathlib.Path) -> Iterator[None]:
    """Remove new files that no record names, which would keep a full disk full."""
    before = {*_files_of(folder)}
    try:
        yield
    except BaseException:
        record = read_json(folder / RECORD) or {}
        named = {*record.get("files", {}).values()}
        _remove([path for path in _files_of(folder) if path not in before and path.name not in named])
        raise


def _remove_other_files(folder: pathlib.Path, record: dict) -> None:
    """Remove files of earlier indexes, absent from the record."""
    keep = {*record["files"].values()}
    _remove([path for path in _files_of(folder) if path.name not in keep])


def _files_of(folder: pathlib.Path) -> list[pathlib.Path]:
    return [path for name in _COLUMNS for path in folder.glob(f"{name}-????????.bin")]


def _remove(paths: list[pathlib.Path]) -> None:
    for path in paths:
        with contextlib.suppress(FileNotFoundError):
            path.unlink()


@contextlib.contextmanager
def _locked(folder: pathlib.Path) -> Iterator[None]:
    received, fix = f"{folder}, which another process writes", "Wait until it has ended."
    refusal = invalid("index folder", received=received, expected="one writer", fix=fix)
    with hold_lock(folder / "lock", refusal=refusal):
        remove_temporary_files(folder, kept=MODEL)
        yield
