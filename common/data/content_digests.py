"""SHA-256 of files, kept beside the prepared images so that a data set is read once and not at every start."""

from __future__ import annotations

import hashlib
import json
import logging
import os
import threading
import time
from collections import defaultdict
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

from common.data.regular_files import read_regular_file, regular_status
from common.progress import progress_bar

_SETTLED = 2_000_000_000  # nanoseconds; within less, a file system may give two changes the same time
_log = logging.getLogger(__name__)


def content_digests(
    paths: Sequence[str | os.PathLike], cache_dir: str | os.PathLike, what: str = "images"
) -> list[str]:
    """Hexadecimal SHA-256 of the contents of files.

    A digest is kept with the file's absolute path, size, time of modification and time of change (which no program can
    set back), and taken from there while these are the same. A file that was moved, touched or changed is read again.

    Args:
        paths: `[files]`, in any order; one may occur several times.
        cache_dir: digests are kept in its folder `digests`, which is made when missing. If it cannot be written, a
            warning says so, and the next call reads the files again.
        what: the files are, for the progress bar.

    Returns:
        `[files]` digests, in the order of the paths.

    Raises:
        InvalidInput: a path is no file, or cannot be read; it names it.
    """
    places = [os.path.abspath(str(path)) for path in paths]
    kept = _KeptDigests(os.path.join(cache_dir, "digests"))
    found = {place: kept.find(place, _version(place)) for place in dict.fromkeys(places)}
    digests = {place: digest for place, digest in found.items() if digest is not None}
    unread = [place for place in found if place not in digests]
    if unread:
        digests.update(_read(unread, kept, what))
    return [digests[place] for place in places]


def _version(place: str) -> list[int]:
    status = regular_status(place)
    return [status.st_size, status.st_mtime_ns, status.st_ctime_ns]


def _read(places: list[str], kept: _KeptDigests, what: str) -> dict[str, str]:
    """Digests by path, read in parallel; what was read is kept even if the rest is not."""
    pool = ThreadPoolExecutor()
    entries = {}
    try:
        read = pool.map(_entry, places)
        for place, entry in zip(places, progress_bar(read, desc=f"reading {what}", total=len(places), unit="file")):
            entries[place] = entry
    finally:
        pool.shutdown(cancel_futures=True)
        kept.keep({place: entry[:2] for place, entry in entries.items() if entry[2]})
    return {place: digest for place, (_, digest, _) in entries.items()}


def _entry(place: str) -> tuple[list[int], str, bool]:
    """Version and digest of a file, and whether they may be kept: it did not change shortly before."""
    begun, version = time.time_ns(), _version(place)
    digest = hashlib.sha256(read_regular_file(place)).hexdigest()
    return version, digest, version == _version(place) and abs(begun - version[2]) >= _SETTLED


class _KeptDigests:
    """Digests on disk, in up to 256 JSON files: paths of one folder are in one of them."""

    def __init__(self, folder: str) -> None:
        self.folder = folder
        self._shards: dict[str, dict] = {}

    def find(self, place: str, version: list[int]) -> str | None:
        """The digest that was kept of this version of a file."""
        entry = self._shard(_shard_of(place)).get(place)
        return entry[1] if isinstance(entry, list) and len(entry) == 2 and entry[0] == version else None

    def keep(self, entries: dict[str, tuple[list[int], str]]) -> None:
        """Adds entries (version and digest by path) to what is on disk."""
        of_shard: defaultdict[str, dict[str, tuple[list[int], str]]] = defaultdict(dict)
        for place, entry in entries.items():
            of_shard[_shard_of(place)][place] = entry
        try:
            for name, added in of_shard.items():
                self._write(name, {**self._shard(name), **added})
        except OSError as error:
            reason = error.strerror or error
            _log.warning(
                "Digests of images cannot be kept in %s (%s); they are read again next time.", self.folder, reason
            )

    def _shard(self, name: str) -> dict:
        if name not in self._shards:
            self._shards[name] = _read_shard(os.path.join(self.folder, name))
        return self._shards[name]

    def _write(self, name: str, entries: dict) -> None:
        os.makedirs(self.folder, exist_ok=True)
        path = os.path.join(self.folder, name)
        unfinished = f"{path}.{os.getpid()}.{threading.get_ident()}.part"
        try:
            with open(unfinished, "w", encoding="ascii") as file:
                json.dump(entries, file)
            os.replace(unfinished, path)
        finally:
            if os.path.exists(unfinished):
                os.unlink(unfinished)


def _shard_of(place: str) -> str:
    folder = os.path.dirname(place).encode("utf-8", "surrogateescape")
    return f"{hashlib.sha256(folder).hexdigest()[:2]}.json"


def _read_shard(path: str) -> dict:
    """What a file holds; nothing where it is missing or damaged, since all of it can be read again."""
    try:
        with open(path, encoding="ascii") as file:
            entries = json.load(file)
    except FileNotFoundError:
        return {}
    except (OSError, ValueError) as error:
        _log.warning("%s cannot be read (%s); its images are read again.", path, error)
        return {}
    return entries if isinstance(entries, dict) else {}
