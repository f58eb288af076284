"""Caches and runs on the disk: found, measured, removed, kept within a bound.

Only folders whose every file has a name that this project gives are removed; links are never followed.
"""

from __future__ import annotations

import contextlib
import os
import pathlib
import re
import secrets
import stat
import time
from collections.abc import Iterator
from dataclasses import dataclass

from common.errors import InvalidInput
from common.files import hold_lock, is_locked, read_json
from common.progress import write_notice
from common.records.run_directory import read_finished_result

CACHES = ("copies of images", "copies in shards", "features")
FINISHED, UNFINISHED, IN_PROGRESS = "finished run", "unfinished run", "run in progress"
_IN_USE = "in_use"  # below the cache folder: a locked file of each running unit, with its data set's name
_TEMPORARY = r"(?:.*/)?\..*\.tmp"
_COPIES = r"shorter_side_\d+(?:_boxes)?(?:_compressed)?"
_CACHES = {  # by kind: place below the cache folder, and names of files below it
    "copies of images": (
        rf"images/[\w.+-]+/prepared/{_COPIES}",
        r"[0-9a-f]{2}/.*-[0-9a-f]{20}\.jpg(?:\.\d+\.\d+\.part)?",
    ),
    "copies in shards": (
        rf"images/[\w.+-]+/shards/{_COPIES}_version_\d+",
        rf"shard-[0-9a-f]{{16}}\.bin|lock|{_TEMPORARY}",
    ),
    "features": (
        r"features/[\w.+-]+/[0-9a-f]+",
        rf"activations-\d{{5}}-[0-9a-f]+\.npy|origin\.json|lock|{_TEMPORARY}",
    ),
}
_RUN_FILES = (
    r"(?:config|sources|features|untrained|closed_form|training_diagnostics|target_shares|tracker|row|result|result\.copy)\.json"
    r"|(?:checkpoint|checkpoint\.previous|checkpoint\.damaged|weights|test_embeddings|class_scores|sampling)\.npz"
    rf"|problem\d+\.npz|metrics\.jsonl|lock|model\.keras|tensorboard/events\.out\.tfevents\.[^/]+|{_TEMPORARY}"
)
_OF_A_RUN = {"dataset", "loss", "pooling", "fold", "repeat"}  # in each config.json
_CARD, _CARD_BEGINS = "README.md", b"---\nlibrary_name: keras\n"  # of model.keras
_LAST = ("config.json", "lock")  # a run that is removed in part can still be recognised


@dataclass(frozen=True)
class Leftover:
    """A cache or a run."""

    kind: str
    folder: pathlib.Path
    files: tuple[str, ...]
    num_bytes: int
    changed: float  # time of the newest file, or of a cache's last use, in seconds since 1970
    kept_because: str = ""  # why it cannot be removed; empty if it can

    @property
    def days(self) -> float:
        """The time since it was changed or used, in days."""
        return max(0.0, time.time() - self.changed) / 86400


def caches_in(cache_dir: str) -> list[Leftover]:
    """Find prepared images and cached features."""
    root, found = pathlib.Path(cache_dir), []
    busy = {mark.name.rpartition(".")[0] for mark in (root / _IN_USE).glob("*.*") if is_locked(mark)}
    for kind, (place, names) in _CACHES.items():
        folders = sorted(root.glob("/".join("*" * (1 + place.count("/")))))
        ours = [each for each in folders if re.fullmatch(place, each.relative_to(root).as_posix())]
        # A feature store states its origin; anything else there is none.
        ours = [each for each in ours if kind != "features" or (each / "origin.json").is_file()]
        ours = [each for each in ours if each.is_dir() and not each.is_symlink()]
        found += [_leftover(kind, each, names, each.relative_to(root).parts[1] in busy) for each in ours]
    return found


@contextlib.contextmanager
def caches_in_use(cache_dir: str, dataset: str, most_gb: float) -> Iterator[None]:
    """Keep a data set's caches in a `with` block; bound all after it.

    Those unused for longest are removed first. Those of running units stay, also beyond the bound (GB of 10^9 bytes).
    In a folder without write access or locks, nothing is kept or removed.
    """
    mark = pathlib.Path(cache_dir) / _IN_USE / f"{dataset}.{secrets.token_hex(8)}"
    with contextlib.ExitStack() as stack:
        with contextlib.suppress(OSError, InvalidInput):
            mark.parent.mkdir(parents=True, exist_ok=True)
            stack.callback(mark.unlink, missing_ok=True)
            stack.enter_context(hold_lock(mark))
        yield
        if mark.exists():
            _bound(cache_dir, most_gb)


def _bound(cache_dir: str, most_gb: float) -> None:
    """Remove caches beyond the bound, and report it in a line."""
    found = caches_in(cache_dir)
    stays = recently_used(found, found, round(most_gb * 1e9))
    removed = [each for each in found if each.folder not in stays and remove(each, cache_dir)]
    if removed:
        freed = sum(each.num_bytes for each in removed)
        names = ", ".join(each.folder.relative_to(cache_dir).as_posix() for each in removed)
        write_notice(
            f"{freed / 1e6:,.0f} MB of caches unused for longest were removed (--cache_gb={most_gb:g}): {names}"
        )


def recently_used(found: list[Leftover], caches: list[Leftover], most_bytes: int) -> set[pathlib.Path]:
    """Return the caches that stay if the least recently used of `found` go first.

    More than `most_bytes` stay where some are in use or hold other files.
    """
    total = sum(each.num_bytes for each in caches)
    kept = {each.folder for each in caches}
    for each in sorted(found, key=lambda each: each.changed):
        if total > most_bytes and each.folder in kept and not each.kept_because:
            kept.remove(each.folder)
            total -= each.num_bytes
    return kept


def runs_in(runs_dir: str) -> list[Leftover]:
    """Find the runs at any depth of a folder."""
    found = []
    for place, folders, names in os.walk(runs_dir):
        folders.sort()
        folder = pathlib.Path(place)
        if "config.json" in names and (read_json(folder / "config.json") or {}).keys() >= _OF_A_RUN:
            found.append(_leftover(_state(folder), folder, _RUN_FILES))
    return found


def remove(leftover: Leftover, root: str) -> bool:
    """Remove a cache or run, and empty folders between it and `root`; return success.

    One that changed since it was found, or that a process works on, stays.
    """
    folder = leftover.folder
    with contextlib.ExitStack() as stack:
        if "lock" in leftover.files:
            try:
                stack.enter_context(hold_lock(folder / "lock", refusal=InvalidInput("in use")))
            except InvalidInput:
                return False
        if _measured(folder)[:3] != (leftover.files, leftover.num_bytes, leftover.changed):
            return False
        for name in sorted(leftover.files, key=lambda name: (_LAST.index(name) if name in _LAST else -1, name)):
            (folder / name).unlink(missing_ok=True)
    for place, _, _ in os.walk(folder, topdown=False):
        _remove_if_empty(place)
    for above in folder.parents:
        if not above.is_relative_to(root) or above == pathlib.Path(root) or not _remove_if_empty(above):
            break
    return True


def _remove_if_empty(folder: str | os.PathLike) -> bool:
    with contextlib.suppress(OSError):
        os.rmdir(folder)
        return True
    return False


def _state(run: pathlib.Path) -> str:
    if is_locked(run / "lock"):
        return IN_PROGRESS
    return FINISHED if read_finished_result(run)[0] is not None else UNFINISHED


def _leftover(kind: str, folder: pathlib.Path, names: str, busy: bool = False) -> Leftover:
    files, num_bytes, changed, others = _measured(folder)
    foreign = [*others, *(name for name in files if not re.fullmatch(names, name, re.DOTALL))]
    if foreign == [_CARD] and (folder / _CARD).read_bytes().startswith(_CARD_BEGINS):
        foreign = []
    reason = ""
    if busy or kind == IN_PROGRESS or (kind in CACHES and is_locked(folder / "lock")):
        reason = "in use"
    elif foreign:
        reason = f"has other files, such as {foreign[0]}"
    return Leftover(kind, folder, files, num_bytes, changed, reason)


def _measured(folder: pathlib.Path) -> tuple[tuple[str, ...], int, float, list[str]]:
    """Return a folder's files, bytes and newest time, and names of other entries."""
    files: list[str] = []
    others: list[str] = []
    num_bytes, changed = 0, 0.0
    for path in _below(folder):
        with contextlib.suppress(FileNotFoundError):  # removed meanwhile
            status, name = path.lstat(), path.relative_to(folder).as_posix()
            (files if stat.S_ISREG(status.st_mode) else others).append(name)
            num_bytes += status.st_size
            changed = max(changed, status.st_mtime)
    used = 0.0 if "config.json" in files else folder.stat().st_mtime  # see `mark_used`; a run's folder is not marked
    return tuple(sorted(files)), num_bytes, max(changed, used), others


def _below(folder: pathlib.Path) -> Iterator[pathlib.Path]:
    """Yield everything in a folder except folders; links are not followed."""
    for place, folders, names in os.walk(folder):
        links = [name for name in folders if os.path.islink(os.path.join(place, name))]
        yield from (pathlib.Path(place, name) for name in (*names, *links))
