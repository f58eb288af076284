"""Shards, larger files of many images: read by place, found and added by keys.

A shard holds contents of many images, then their table, then a footer. It is one file, so it appears at once, and its
table belongs to it:

- the images' contents, without gaps;
- one record of `RECORD` for each, in the same order;
- the name of the format, the number of images, and the CRC-32 of the records.

A file that was cut off has lost its end, and is recognised by that.
"""

from __future__ import annotations

import contextlib
import logging
import os
import pathlib
import secrets
import struct
import threading
import zlib
from collections.abc import Callable, Iterator, Sequence
from typing import BinaryIO, TextIO, overload

import numpy as np

from common.data.image_jobs import cannot_write_cache
from common.errors import InvalidInput, invalid
from common.files import lock_file, remove_temporary_files, write_atomically
from common.progress import write_notice

SHARD_BYTES = 128 * 2**20  # a few thousand shards for ten million copies; held in memory until a shard is written
ENTRY = np.dtype([("shard", "<i4"), ("offset", "<i8"), ("length", "<u4"), ("checksum", "<u4")])
RECORD = np.dtype([("key", "S16"), ("length", "<u4"), ("checksum", "<u4")])  # checksum: CRC-32 of the contents
_END = struct.Struct("<8sQL")
_FORMAT = b"imgshrd1"
_log = logging.getLogger(__name__)


class ShardedImages(Sequence[bytes]):
    """Contents of image files in shards, in 20 bytes of memory each.

    A sequence of contents, read on access. An array of indices (or a mask, or a slice) selects a part without reading.

    Args:
        shards: paths of the files.
        entries: `[images]` of `ENTRY`: place in `shards`, offset and length in bytes, CRC-32 of the contents.
    """

    def __init__(self, shards: Sequence[str], entries: np.ndarray) -> None:
        self._shards, self._entries = tuple(shards), entries

    def __len__(self) -> int:
        return len(self._entries)

    @overload
    def __getitem__(self, index: int) -> bytes: ...

    @overload
    def __getitem__(self, index: slice | Sequence[int] | np.ndarray) -> ShardedImages: ...

    def __getitem__(self, index: int | slice | Sequence[int] | np.ndarray) -> bytes | ShardedImages:
        """Return contents at a place, or images at indices, a mask `[images]` or slice."""
        if isinstance(index, (int, np.integer)):
            return self[[int(index)]].named_contents()[0, 1]
        return ShardedImages(self._shards, self._entries[index])

    def __repr__(self) -> str:
        return f"ShardedImages({len(self)} images in {len(self._shards)} shards)"

    def named_contents(self) -> np.ndarray:
        """Return `[images, 2]` names (for messages) and contents as bytes, for TensorFlow.

        Raises:
            InvalidInput: a shard is missing or damaged; it names it.
        """
        found = np.empty((len(self), 2), object)
        for shard in np.unique(self._entries["shard"]).tolist():
            rows = np.flatnonzero(self._entries["shard"] == shard).tolist()
            entries = self._entries[rows][["offset", "length", "checksum"]].tolist()
            for row, named in zip(rows, _read(self._shards[shard], entries)):
                found[row] = named
        return found

    @property
    def nbytes(self) -> int:
        """Bytes of memory of the places, without the shards' names."""
        return self._entries.nbytes


def _read(path: str, entries: list[tuple[int, int, int]]) -> list[tuple[bytes, bytes]]:
    """Read names and contents of one shard's images, by offset, length and checksum."""
    found = []
    try:
        with open(path, "rb", buffering=0) as file:
            for offset, length, checksum in entries:
                contents = os.pread(file.fileno(), length, offset)
                if zlib.crc32(contents) != checksum:
                    raise _damaged(path, offset)
                found.append((os.fsencode(f"{path} at byte {offset}"), contents))
    except OSError as error:
        raise invalid(
            "image file",
            received=path,
            expected=f"a shard that can be read ({error.strerror or error})",
            fix="Run the same command again: missing copies of images are made again.",
        ) from error
    return found


def _damaged(path: str, offset: int) -> InvalidInput:
    return invalid(
        "image file",
        received=f"{path} with damage at byte {offset}",
        expected="a shard as it was written",
        fix="Delete it and run the same command again: its copies of images are made again.",
    )


class ShardFolder:
    """Images in shards, by keys.

    Shards are read when the object is made, and again whenever it is filled.

    Args:
        path: the folder; it need not exist.
        shard_bytes: of images, when a shard is written.

    Raises:
        InvalidInput: A shard cannot be read. Damaged shards are skipped with a warning and removed by `filling`.
    """

    def __init__(self, path: str | os.PathLike, shard_bytes: int = SHARD_BYTES) -> None:
        self.path, self.shard_bytes = pathlib.Path(path), shard_bytes
        self._warned_of: set[pathlib.Path] = set()
        self._read()

    def find(self, keys: np.ndarray) -> tuple[ShardedImages, np.ndarray]:
        """Return the images with some keys, and which of them are missing.

        Args:
            keys: `[images]` of 16 bytes (`S16`), in any order; one may occur several times.

        Returns:
            The images, in the order of the keys (those that are missing cannot be read), and a mask `[images]`.
        """
        entries = np.zeros(len(keys), ENTRY)
        missing = np.ones(len(keys), bool)
        if len(self._keys):
            wanted = np.argsort(keys)  # neighbours are looked up one after the other, which is faster
            places = np.searchsorted(self._keys, keys[wanted], sorter=self._order)
            places = self._order[np.minimum(places, len(self._order) - 1)]
            is_there = self._keys[places] == keys[wanted]
            entries[wanted[is_there]] = self._entries[places[is_there]]
            missing[wanted[is_there]] = False
        return ShardedImages(self._shards, entries), missing

    @contextlib.contextmanager
    def filling(self) -> Iterator[Callable[[bytes, bytes], None]]:
        """Lock the folder for this process; yield a function that adds (key, contents).

        It waits while another process fills the folder, and then finds that process's images. Several threads may call
        the function. A shard is written as soon as it is full, and at the end, also after an error; only a killed
        process loses the images of its last shard.

        Raises:
            InvalidInput: the folder cannot be written.
        """
        with contextlib.ExitStack() as stack:
            try:
                self.path.mkdir(parents=True, exist_ok=True)
                _lock(stack.enter_context(open(self.path / "lock", "a")), self.path)
                remove_temporary_files(self.path)
                for path in self._read():
                    path.unlink(missing_ok=True)
            except OSError as error:
                raise cannot_write_cache(error) from error
            writer = _ShardWriter(self.path, self.shard_bytes)
            try:
                yield writer.add
            finally:
                writer.flush()
            self._read()

    def _read(self) -> list[pathlib.Path]:
        """Read the tables of all shards; return the damaged ones."""
        shards: list[str] = []
        damaged: list[pathlib.Path] = []
        keys, entries = [np.zeros(0, RECORD["key"])], [np.zeros(0, ENTRY)]
        for path in sorted(self.path.glob("shard-*.bin")):
            records = read_records(path)
            if isinstance(records, str):
                damaged.append(path)
                self._warn_of(path, records)
            else:
                keys.append(np.ascontiguousarray(records["key"]))
                entries.append(_entries(len(shards), records))
                shards.append(os.fspath(path))
        self._shards = shards
        self._keys, self._entries = np.concatenate(keys), np.concatenate(entries)
        self._order = np.argsort(self._keys)
        return damaged

    def _warn_of(self, path: pathlib.Path, damage: str) -> None:
        if path not in self._warned_of:
            _log.warning("%s is damaged (%s); its copies of images are made again.", path, damage)
        self._warned_of.add(path)


def _entries(shard: int, records: np.ndarray) -> np.ndarray:
    """Return places `[images]` of a shard's images, from its table."""
    entries = np.empty(len(records), ENTRY)
    entries["shard"], entries["length"], entries["checksum"] = shard, records["length"], records["checksum"]
    entries["offset"] = np.cumsum(records["length"], dtype=np.int64) - records["length"]
    return entries


def _lock(file: TextIO, folder: pathlib.Path) -> None:
    try:
        lock_file(file, wait=False)
    except BlockingIOError:
        write_notice(f"waiting for another process that makes copies of images in {folder}")
        lock_file(file)


class _ShardWriter:
    """Collects images from several threads, and writes them as shards."""

    def __init__(self, folder: pathlib.Path, shard_bytes: int) -> None:
        self._folder, self._shard_bytes = folder, shard_bytes
        self._images: list[tuple[bytes, bytes]] = []
        self._size = 0
        self._lock = threading.Lock()

    def add(self, key: bytes, contents: bytes) -> None:
        """Add an image; the thread that completes a shard writes it."""
        with self._lock:
            self._images.append((key, contents))
            self._size += len(contents)
            images = self._taken() if self._size >= self._shard_bytes else []
        self._write(images)

    def flush(self) -> None:
        """Write the remaining images as a smaller shard."""
        with self._lock:
            images = self._taken()
        try:
            self._write(images)
        except OSError as error:
            raise cannot_write_cache(error) from error

    def _taken(self) -> list[tuple[bytes, bytes]]:
        images, self._images, self._size = self._images, [], 0
        return images

    def _write(self, images: list[tuple[bytes, bytes]]) -> None:
        if images:
            path = self._folder / f"shard-{secrets.token_hex(8)}.bin"
            write_atomically(path, lambda file: write_shard(file, images))


def write_shard(file: BinaryIO, images: Sequence[tuple[bytes, bytes]]) -> None:
    """Write a shard.

    Args:
        file: empty, open for writing.
        images: a key of up to 16 bytes and the contents of each.
    """
    for _, contents in images:
        file.write(contents)
    records = np.array([(key, len(contents), zlib.crc32(contents)) for key, contents in images], RECORD).tobytes()
    file.write(records)
    file.write(_END.pack(_FORMAT, len(images), zlib.crc32(records)))


def read_records(path: str | os.PathLike) -> np.ndarray | str:
    """Read a shard's table, `[images]` of `RECORD`, or describe the file's damage.

    Raises:
        InvalidInput: the file cannot be read; it names it.
    """
    try:
        with open(path, "rb") as file:
            size = os.fstat(file.fileno()).st_size
            file.seek(max(0, size - _END.size))
            end = file.read()
            if len(end) != _END.size or not end.startswith(_FORMAT):
                return "its end is missing"
            _, count, checksum = _END.unpack(end)
            start = size - _END.size - count * RECORD.itemsize
            if start < 0:
                return "its beginning is missing"
            file.seek(start)
            stored = file.read(count * RECORD.itemsize)
    except OSError as error:
        reason = f"a shard that can be read ({error.strerror or error})"
        raise invalid("image file", received=path, expected=reason, fix="Make it readable, or delete it.") from error
    if zlib.crc32(stored) != checksum:
        return "its table does not fit its checksum"
    records = np.frombuffer(stored, RECORD)
    return records if records["length"].sum(dtype=np.int64) == start else "its size is not that of its images"
