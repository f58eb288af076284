"""SHA-256 of files, cached beside the prepared images to avoid rereading a data set."""

from __future__ import annotations

import functools
import hashlib
import json
import logging
import os
import time
from collections import defaultdict
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor

import numpy as np

from common.data.file_names import FileNames
from common.data.image_formats import Reading, Traits, stored_traits
from common.data.regular_files import read_regular_file, regular_status
from common.files import write_text
from common.progress import progress_bar

_SETTLED = 2_000_000_000  # nanoseconds; within less, a file system may give two changes the same time
_DIGITS = 64  # of a SHA-256
_TRAITS_RULE = "orientation: any whole number; profile: any but sRGB"  # kept with the traits that it has found
_log = logging.getLogger(__name__)


def content_digests(
    paths: Iterable[str | os.PathLike],
    cache_dir: str | os.PathLike,
    what: str = "images",
    reading: Reading = Reading.STORED,
) -> np.ndarray:
    """Return the hexadecimal SHA-256 of the contents of files.

    A digest is kept with the file's absolute path, size, time of modification and time of change (which no program can
    set back), and taken from there while these are the same. A file that was moved, touched or changed is read again.
    Files are visited folder by folder; beside the result, memory is taken for one of 256 parts of them at a time.

    Args:
        paths: `[files]`, in any order; one may occur several times.
        cache_dir: digests are kept in its folder `digests`, which is made when missing. If it cannot be written, a
            warning says so, and the next call reads the files again.
        what: the files are, for the progress bar.
        reading: of the files if they are images, see `content_digest`.

    Returns:
        `[files]` digests as bytes (`S64`), in the order of the paths.

    Raises:
        InvalidInput: a path is no file, or cannot be read; it names it.
    """
    names = paths if isinstance(paths, FileNames) else FileNames(paths)
    kept = _KeptDigests(os.path.join(cache_dir, "digests"))
    digests = np.zeros(len(names), "S64")
    for shard, places in _by_shard(names):
        entries = kept.read(shard)
        for place, row in places:
            digests[row] = _digest_in(entries, place, _version(place), reading).encode()
    unread = np.flatnonzero(digests == b"")
    if len(unread):
        digests[unread] = _read(names[unread], kept, what, reading)
    return digests


def content_digest(contents: bytes, reading: Reading) -> str:
    """Return a file's hexadecimal SHA-256, with traits that a reading applies.

    So the readings of a turned photo, or of one with a profile, have digests of their own; any other file has one.

    Args:
        contents: of the file.
        reading: of the file.
    """
    digest = hashlib.sha256(contents).hexdigest()
    return _read_digest(digest, stored_traits(contents) if reading else Traits(), reading)


def _read_digest(digest: str, traits: Traits, reading: Reading) -> str:
    """Return the digest of a file of these traits in a reading."""
    if reading >= Reading.UPRIGHT and traits.orientation != 1:
        digest += f" turned {traits.orientation}"
    if reading >= Reading.SHOWN and traits.has_profile:
        digest += " in its profile"
    return digest if len(digest) == _DIGITS else hashlib.sha256(digest.encode()).hexdigest()


def _by_shard(names: FileNames) -> Iterator[tuple[str, list[tuple[str, int]]]]:
    """Yield each shard with absolute paths and rows of its files, by first file."""
    of_shard: defaultdict[str, list[tuple[str, np.ndarray]]] = defaultdict(list)
    for folder, rows in names.by_folder():
        place = os.path.join(os.path.abspath(folder or "."), "")
        of_shard[_shard_of(place)].append((place, rows))
    for shard, folders in of_shard.items():
        named = ((place, zip(names.base_names(rows), rows.tolist())) for place, rows in folders)
        yield shard, [(place + name, row) for place, files in named for name, row in files]


def _version(place: str) -> list[int]:
    status = regular_status(place)
    return [status.st_size, status.st_mtime_ns, status.st_ctime_ns]


def _digest_in(entries: dict, place: str, version: list[int], reading: Reading) -> str:
    """Return the cached digest of this file version and reading, or an empty string."""
    entry = entries.get(place)
    if not (isinstance(entry, list) and len(entry) in (2, 3, 4, 5) and entry[0] == version):
        return ""
    if not (isinstance(entry[1], str) and len(entry[1]) == _DIGITS):
        return ""
    if not reading:
        return entry[1]
    is_known = len(entry) == 5 and entry[2] in range(1, 9) and entry[3] in (False, True) and entry[4] == _TRAITS_RULE
    return _read_digest(entry[1], Traits(*entry[2:4]), reading) if is_known else ""


def _read(names: FileNames, kept: _KeptDigests, what: str, reading: Reading) -> np.ndarray:
    """Read digests `[files]` in parallel; cache the successful ones even on errors."""
    digests = np.zeros(len(names), "S64")
    pool = ThreadPoolExecutor()
    try:
        with progress_bar(desc=f"reading {what}", total=len(names), unit="file") as bar:
            for shard, places in _by_shard(names):
                rows_of: defaultdict[str, list[int]] = defaultdict(list)
                for place, row in places:
                    rows_of[place].append(row)
                entries: dict[str, list] = {}
                try:
                    read = functools.partial(_entry, reads_traits=bool(reading))
                    for place, (entry, may_be_kept) in zip(rows_of, pool.map(read, rows_of)):
                        if may_be_kept:
                            entries[place] = entry
                        digests[rows_of[place]] = _read_digest(entry[1], Traits(*entry[2:4]), reading).encode()
                        bar.update(len(rows_of[place]))
                finally:
                    kept.keep(shard, entries)
    finally:
        pool.shutdown(cancel_futures=True)
    return digests


def _entry(place: str, reads_traits: bool) -> tuple[list, bool]:
    """Return a file's version, digest and perhaps traits, and whether to cache them."""
    begun, version = time.time_ns(), _version(place)
    contents = read_regular_file(place)
    entry: list = [version, hashlib.sha256(contents).hexdigest()]
    entry += [*stored_traits(contents), _TRAITS_RULE] if reads_traits else []
    return entry, version == _version(place) and abs(begun - version[2]) >= _SETTLED


class _KeptDigests:
    """Digests on disk in up to 256 JSON files; each folder is in one."""

    def __init__(self, folder: str) -> None:
        self.folder = folder
        self._is_writable = True
        self._damaged: set[str] = set()

    def keep(self, shard: str, added: dict[str, list]) -> None:
        """Add entries (version, digest and perhaps traits, by path) to the disk."""
        if not added or not self._is_writable:
            return
        try:
            write_text(os.path.join(self.folder, shard), json.dumps({**self.read(shard), **added}))
        except OSError as error:
            self._is_writable = False
            reason = error.strerror or error
            _log.warning(
                "Digests of images cannot be kept in %s (%s); they are read again next time.", self.folder, reason
            )

    def read(self, shard: str) -> dict:
        """Read entries from disk; none if the file is missing or damaged."""
        path = os.path.join(self.folder, shard)
        try:
            with open(path, encoding="ascii") as file:
                entries = json.load(file)
        except FileNotFoundError:
            return {}
        except (OSError, ValueError) as error:
            if shard not in self._damaged:
                _log.warning("%s cannot be read (%s); its images are read again.", path, error)
            self._damaged.add(shard)
            return {}
        return entries if isinstance(entries, dict) else {}


def _shard_of(place: str) -> str:
    """Return the JSON file for the files of a folder."""
    folder = os.path.dirname(place).encode("utf-8", "surrogateescape")
    return f"{hashlib.sha256(folder).hexdigest()[:2]}.json"
